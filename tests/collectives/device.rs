//! The devices that cases run on: host devices.

use std::thread;
use std::time::Duration;

use typed_nccl::{Buffer, DType, Host, Result, Stream};

use super::elements::Value;
use super::play::Turns;

/// The source of ranks.
pub(crate) type Kind = Host;

/// The data types that it reduces.
pub(crate) const DTYPES: &[DType] = DType::ALL.split_at(14).0;

impl<Tag> Turns for Host<Tag> {
    fn turn<T: Value>(
        stream: &Stream<Self>,
        elements: &mut Buffer<T, Self>,
        nap: Duration,
    ) -> Result<()> {
        stream.launch(elements, move |elements, ()| {
            thread::sleep(nap);
            let by = elements.len().min(1);
            elements.rotate_left(by);
        })
    }
}
