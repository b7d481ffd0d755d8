//! Cases: buffers on each rank, and the operations on them.

use typed_nccl::DType;

use super::call::{Call, Op};
use super::elements::{Flavor, Value, mix, pick};
use super::model::{self, How};

/// A program for all ranks.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) dtype: DType,
    pub(crate) ranks: usize,
    /// How many buffers each rank has: two or more.
    pub(crate) buffers: usize,
    /// A buffer has room for this many elements from each rank.
    pub(crate) block: usize,
    pub(crate) flavor: Flavor,
    pub(crate) seed: u64,
    pub(crate) steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Call(Call),
    /// A launch that rotates the elements of a buffer by one, on the second stream of the ranks in
    /// `side`, after a nap of this many microseconds on every other rank.
    Turn {
        buffer: usize,
        side: u8,
        nap: u8,
    },
    /// The host reads all buffers and refills them.
    Refill,
}

/// What a rank's program reads, in order: all buffers at each refill and at the end, then the
/// buffers that calls returned.
pub(crate) type Log<T> = Vec<Vec<T>>;

impl Case {
    /// The last buffer is slightly longer than the others, so it is never used whole.
    pub(crate) fn len(&self, buffer: usize) -> usize {
        self.ranks * self.block + if buffer + 1 == self.buffers { 5 } else { 0 }
    }

    /// The contents of a rank's buffers after the program's `time`-th filling.
    pub(crate) fn filling<T: Value>(&self, rank: usize, time: usize) -> Vec<Vec<T>> {
        let fill = |buffer: usize| {
            let key = mix(self.seed ^ mix((time << 16 | rank << 8 | buffer) as u64));
            let elements = 0..self.len(buffer) as u64;
            elements.map(|i| pick(self.flavor, key.wrapping_add(i))).collect()
        };
        (0..self.buffers).map(fill).collect()
    }

    /// The scalar of a rank for `PreMulSum` in a step.
    pub(crate) fn scalar<T: Value>(&self, step: usize, rank: usize) -> T {
        pick(self.flavor, mix(!self.seed ^ mix((step << 8 | rank) as u64)))
    }

    pub(crate) fn op<T: Value>(&self, call: &Call) -> Op {
        if call.op == Op::Avg && !T::FLOAT { Op::Sum } else { call.op }
    }

    /// Whether the sign of a zero is unspecified.
    pub(crate) fn picks_zeros(&self) -> bool {
        let picks = |call: &Call| call.what.reduces() && matches!(call.op, Op::Min | Op::Max);
        self.steps.iter().any(|step| matches!(step, Step::Call(call) if picks(call)))
    }

    /// What each rank's program should read.
    pub(crate) fn expected<T: Value>(&self) -> Vec<Log<T>> {
        let fill = |time| (0..self.ranks).map(|rank| self.filling::<T>(rank, time)).collect();
        let mut buffers: Vec<Vec<Vec<T>>> = fill(0);
        let mut logs = vec![Log::new(); self.ranks];
        let mut fresh = vec![Log::new(); self.ranks];
        for (number, step) in self.steps.iter().enumerate() {
            match step {
                Step::Call(call) => self.apply(number, call, &mut buffers, &mut fresh),
                Step::Turn { buffer, .. } => {
                    for rank in &mut buffers {
                        let elements = &mut rank[buffer % self.buffers];
                        let by = elements.len().min(1);
                        elements.rotate_left(by);
                    }
                }
                Step::Refill => {
                    for (log, seen) in logs.iter_mut().zip(&mut buffers) {
                        log.append(seen);
                    }
                    buffers = fill(number + 1);
                }
            }
        }
        for ((log, mut seen), mut given) in logs.iter_mut().zip(buffers).zip(fresh) {
            log.append(&mut seen);
            log.append(&mut given);
        }
        logs
    }

    fn apply<T: Value>(
        &self,
        number: usize,
        call: &Call,
        buffers: &mut [Vec<Vec<T>>],
        fresh: &mut [Log<T>],
    ) {
        let layouts: Vec<_> = (0..self.ranks).map(|rank| call.layout(self, rank)).collect();
        let sends: Vec<Vec<T>> = layouts
            .iter()
            .zip(&*buffers)
            .map(|(layout, buffers)| match &layout.send {
                Some(region) => buffers[region.buffer][region.range.clone()].to_vec(),
                None => Vec::new(),
            })
            .collect();
        let scalars = (0..self.ranks).map(|rank| self.scalar(number, rank)).collect();
        let how = How { op: self.op::<T>(call), scalars };
        let received = model::collective(call.what, call.root(self), &how, &sends);
        for (rank, (layout, values)) in layouts.iter().zip(received).enumerate() {
            if let Some(region) = &layout.recv {
                buffers[rank][region.buffer][region.range.clone()].copy_from_slice(&values);
            } else if layout.given {
                fresh[rank].push(values);
            }
        }
    }
}
