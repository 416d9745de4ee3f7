//! Which part of a row's recording is decoded.

use crate::{
    batch::RowCrop,
    engine::dataset::{Dataset, Pick},
    hash::{below, extend},
    order::Step,
    shard::{Shard, Table},
};
use gristmill_audio::{AudioSpec, Crop, DecodeError, Plan, Reason};

/// Words that are hashed for the draws of events.
const PICK: u64 = 19;
const PLACE: u64 = 20;

/// What is decoded of one row. Computed once, when its table is loaded.
#[derive(Debug)]
pub(crate) struct CropSpec {
    /// The data set's spec, where crops of rows differ.
    own: Option<AudioSpec>,
    /// What decides a random crop.
    pub(crate) draw: u64,
    /// The part of the row.
    pub(crate) crop: RowCrop,
}

impl CropSpec {
    /// The spec of this row.
    pub(crate) fn spec<'a>(&'a self, of_all: &'a AudioSpec) -> &'a AudioSpec {
        self.own.as_ref().unwrap_or(of_all)
    }

    /// What is decoded of the row of `step`, which is this row of the table.
    ///
    /// # Errors
    ///
    /// [`Reason::Event`] where the row's event columns tell no event.
    pub(crate) fn new(
        dataset: &Dataset,
        spec: &AudioSpec,
        step: Step,
        (table, table_row): (&Table, usize),
    ) -> Result<Self, DecodeError> {
        let draw = draw(dataset, step);
        let part = step.part.map(|part| (part.number, part.count));
        let (number, count) = part.unwrap_or_default();
        let crop = RowCrop { number, count, ..RowCrop::default() };
        let with = |crop| Some(AudioSpec { crop, ..spec.clone() });
        match (spec.crop, &dataset.source(step.row.shard).events) {
            (Crop::Window { windows, .. }, _) => {
                let own = with(Crop::Window { windows, number });
                Ok(Self { own, draw, crop })
            }
            (Crop::Event(event), Some((reader, pick))) => {
                let bad = |why: String| Reason::Event(why).of_unknown();
                let events = reader.read(&table.columns, table_row).map_err(bad)?;
                let number = match pick {
                    Pick::All => number,
                    Pick::Random => below(extend(draw, PICK), events.len() as u64),
                };
                let Some(&(start_s, end_s)) = events.get(number as usize) else {
                    return Err(bad("the row has no event".to_owned()));
                };
                let own = with(Crop::Event(gristmill_audio::EventCrop { start_s, end_s, ..event }));
                let crop = RowCrop { number, count: events.len() as u64, ..crop };
                Ok(Self { own, draw: extend(draw, PLACE), crop })
            }
            _ => Ok(Self { own: None, draw, crop }),
        }
    }
}

/// Which part of a row's other recordings is decoded: what is at the same time, and as long, as the part of
/// the first. `None` where that part is not known, since the first was not planned.
pub(crate) fn crop_of_others(first: &AudioSpec, plan: Option<&Plan>) -> Option<Crop> {
    if first.crop == Crop::Whole {
        return Some(Crop::Whole);
    }
    let plan = plan?;
    let (frames, rate_hz) = (plan.crop(), f64::from(plan.rate_hz()));
    let length_s = || (frames.end - frames.start) as f64 / rate_hz;
    let seconds = Some(first.crop.seconds().unwrap_or_else(length_s));
    Some(Crop::At { start: frames.start as f64 / rate_hz, seconds })
}

/// The number that is drawn for a row, or for one of its parts, in an epoch.
pub(crate) fn draw(dataset: &Dataset, step: Step) -> u64 {
    let id = step.row;
    let key = dataset.shards.get(id.shard as usize).map_or(0, Shard::key);
    step.draw(dataset.source(id.shard).crop_seed, key)
}
