//! The columns that Gristmill adds to those of the shards.

use super::{
    Column, Dtype, Reservation, reservation,
    row::{Row, RowOutcome},
};
use crate::error::Result;

/// A column of numbers that says something of each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddedColumn {
    /// The number of its data set.
    DataSet,
    /// The number of its shard.
    Shard,
    /// Its index in the shard.
    Row,
    /// Where the crop of its n-th recording begins, in seconds.
    CropStart(usize),
    /// Frames of its n-th recording in the crop.
    CropFrames(usize),
    /// The number of its window, and how many windows its recording has.
    Window,
    NWindows,
    /// The number of its event, and how many events its row has.
    Event,
    NEvents,
    /// Whether it is valid.
    Valid,
}

impl AddedColumn {
    /// Which of a row's recordings it is about, if not about the first or the row.
    pub(crate) fn of_other_audio(self) -> Option<usize> {
        match self {
            Self::CropStart(n) | Self::CropFrames(n) => Some(n).filter(|n| *n > 0),
            _ => None,
        }
    }

    /// The column's name in elements, without that of the column that it is about.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::DataSet => "dataset",
            Self::Shard => "shard",
            Self::Row => "row",
            Self::CropStart(_) => "crop_start",
            Self::CropFrames(_) => "crop_frames",
            Self::Window => "window",
            Self::NWindows => "n_windows",
            Self::Event => "event",
            Self::NEvents => "n_events",
            Self::Valid => "valid",
        }
    }

    /// The dtype of its values.
    pub(crate) fn dtype(self) -> Dtype {
        match self {
            Self::Row => Dtype::I64,
            Self::CropStart(_) => Dtype::F64,
            Self::Valid => Dtype::BOOL,
            Self::DataSet
            | Self::Shard
            | Self::CropFrames(_)
            | Self::Window
            | Self::NWindows
            | Self::Event
            | Self::NEvents => Dtype::I32,
        }
    }

    /// The option that asks for it.
    pub(crate) fn option(self) -> &'static str {
        match self {
            Self::DataSet | Self::Shard | Self::Row => "with_row_id=True",
            Self::Valid => "on_error=\"mask\" or remainder=\"pad\"",
            Self::CropStart(_)
            | Self::CropFrames(_)
            | Self::Window
            | Self::NWindows
            | Self::Event
            | Self::NEvents => "with_crop=True",
        }
    }

    /// Its values for these rows, of data sets whose first shards have these numbers.
    pub(super) fn column(
        self,
        rows: &[Row],
        first_shards: &[u32],
        reservation: &Reservation,
    ) -> Result<Column> {
        let data_set =
            |shard: u32| first_shards.partition_point(|first| *first <= shard).saturating_sub(1);
        let in_its_own =
            |shard: u32| shard - first_shards.get(data_set(shard)).copied().unwrap_or(0);
        let of = Some(reservation);
        let small = |value: u64| i32::try_from(value).unwrap_or(i32::MAX).to_ne_bytes();
        let buf = match self {
            Self::DataSet => {
                reservation::filled(of, rows.iter().map(|row| small(data_set(row.id.shard) as u64)))
            }
            Self::Shard => reservation::filled(
                of,
                rows.iter().map(|row| small(u64::from(in_its_own(row.id.shard)))),
            ),
            Self::Row => {
                reservation::filled(of, rows.iter().map(|row| (row.id.row as i64).to_ne_bytes()))
            }
            Self::CropStart(n) => {
                reservation::filled(of, rows.iter().map(|row| row.crop_of(n).start_s.to_ne_bytes()))
            }
            Self::CropFrames(n) => {
                reservation::filled(of, rows.iter().map(|row| small(row.crop_of(n).n_frames)))
            }
            Self::Window | Self::Event => {
                reservation::filled(of, rows.iter().map(|row| small(row.crop.number)))
            }
            Self::NWindows | Self::NEvents => {
                reservation::filled(of, rows.iter().map(|row| small(row.crop.count)))
            }
            Self::Valid => {
                let valid = rows.iter().map(|row| [u8::from(row.outcome == RowOutcome::Valid)]);
                reservation::filled(of, valid)
            }
        }?;
        Ok(Column::Values { buf: buf.into(), dtype: self.dtype(), shape: vec![rows.len()] })
    }
}
