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
    /// Where its crop begins, in seconds.
    CropStart,
    /// Frames of the recording in its crop.
    CropFrames,
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
    /// The column's name in elements.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::DataSet => "dataset",
            Self::Shard => "shard",
            Self::Row => "row",
            Self::CropStart => "crop_start",
            Self::CropFrames => "crop_frames",
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
            Self::CropStart => Dtype::F64,
            Self::Valid => Dtype::BOOL,
            _ => Dtype::I32,
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
            Self::CropStart => {
                reservation::filled(of, rows.iter().map(|row| row.crop.start_s.to_ne_bytes()))
            }
            Self::CropFrames => {
                reservation::filled(of, rows.iter().map(|row| small(row.crop.n_frames)))
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
