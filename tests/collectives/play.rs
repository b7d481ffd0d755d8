//! One rank's part of a case on the library.

use std::time::Duration;

use typed_nccl::{Buffer, CommConfig, Communicator, Device, Place, Result, Stream};

use super::call::{Call, Op};
use super::case::{Case, Log, Step};
use super::elements::Value;
use super::issue::Issue;

/// A case that waits this long hangs.
const DEADLINE: Duration = Duration::from_secs(30);

/// A device that can rotate the elements of a buffer.
pub(crate) trait Turns: Device {
    /// Moves every element one place to the left and the first one to the end, in stream order,
    /// after a nap.
    fn turn<T: Value>(
        stream: &Stream<Self>,
        elements: &mut Buffer<T, Self>,
        nap: Duration,
    ) -> Result<()>;
}

pub(crate) fn play<T: Value, D: Turns>(place: Place<D>, case: &Case) -> Result<Log<T>> {
    let (seat, device) = place.into_parts();
    let config = CommConfig::builder().deadline(DEADLINE).build();
    let comm =
        Communicator::builder().seat(seat).device(device).config(config).build().connect()?;
    let filling = case.filling::<T>(comm.rank().index(), 0);
    let buffers: Result<Vec<_>> = filling.iter().map(|v| comm.device().from_slice(v)).collect();
    let (buffers, fresh, log) = (buffers?, Vec::new(), Log::new());
    let side = comm.device().stream()?;
    let mut player = Player { case, comm, side, buffers, fresh, log };
    for (number, step) in case.steps.iter().enumerate() {
        player.step(number, step)?;
    }
    player.look()?;
    let Player { fresh, mut log, comm, .. } = player;
    for buffer in fresh {
        log.push(buffer.to_vec()?);
    }
    comm.finish()?;
    Ok(log)
}

struct Player<'c, T, D: Device> {
    case: &'c Case,
    comm: Communicator<D>,
    side: Stream<D>,
    buffers: Vec<Buffer<T, D>>,
    /// Buffers that calls returned.
    fresh: Vec<Buffer<T, D>>,
    log: Log<T>,
}

impl<T: Value, D: Turns> Player<'_, T, D> {
    fn step(&mut self, number: usize, step: &Step) -> Result<()> {
        let rank = self.comm.rank().index();
        match *step {
            Step::Call(call) => self.call(number, rank, &call),
            Step::Turn { buffer, side, nap } => {
                let nap =
                    Duration::from_micros(if rank.is_multiple_of(2) { 0 } else { nap.into() });
                let stream = if side >> rank & 1 == 1 { &self.side } else { self.comm.stream() };
                D::turn(stream, &mut self.buffers[buffer % self.case.buffers], nap)
            }
            Step::Refill => {
                self.look()?;
                let filling = self.case.filling::<T>(rank, number + 1);
                for (buffer, values) in self.buffers.iter_mut().zip(&filling) {
                    buffer.copy_from(values)?;
                }
                Ok(())
            }
        }
    }

    fn look(&mut self) -> Result<()> {
        for buffer in &self.buffers {
            self.log.push(buffer.to_vec()?);
        }
        Ok(())
    }

    fn call(&mut self, number: usize, rank: usize, call: &Call) -> Result<()> {
        let op = self.case.op::<T>(call);
        let scaled = match op {
            Op::PreMulSum => Some(self.comm.pre_mul_sum(self.case.scalar::<T>(number, rank))?),
            _ => None,
        };
        let issue = Issue {
            comm: &self.comm,
            side: call.is_side(rank).then_some(&self.side),
            what: call.what,
            root: call.root(self.case),
            op,
            scaled: scaled.as_ref(),
        };
        let layout = call.layout(self.case, rank);
        issue.run(&layout, &mut self.buffers, &mut self.fresh)
    }
}
