//! The ranks' data, and the expected results.

use typed_nccl::plan::build::{self, PlanElement};
use typed_nccl::{Numeric, bf16, f16};

use crate::options::{Operation, Reduction};

/// Elements that convert from and to numbers.
pub(crate) trait Value: Numeric {
    /// The type in plans.
    type Plan: PlanElement;

    fn of(number: f64) -> Self;

    fn get(self) -> f64;

    /// The tolerance for a mean.
    const TOLERANCE: f64;
}

macro_rules! values {
    ($($type:ident as $plan:ty, $tolerance:literal: $of:expr, $get:expr;)*) => { $(
        impl Value for $type {
            type Plan = $plan;

            const TOLERANCE: f64 = $tolerance;

            fn of(number: f64) -> Self {
                $of(number)
            }

            fn get(self) -> f64 {
                $get(self)
            }
        }
    )* };
}

values! {
    i8 as i8, 0.0: |number| number as i8, f64::from;
    u8 as u8, 0.0: |number| number as u8, f64::from;
    i32 as i32, 0.0: |number| number as i32, f64::from;
    u32 as u32, 0.0: |number| number as u32, f64::from;
    i64 as i64, 0.0: |number| number as i64, |value| value as f64;
    u64 as u64, 0.0: |number| number as u64, |value| value as f64;
    f16 as build::F16, 1e-3: f16::from_f64, f16::to_f64;
    bf16 as build::Bf16, 1e-2: bf16::from_f64, bf16::to_f64;
    f32 as f32, 1e-6: |number| number as f32, f64::from;
    f64 as f64, 1e-14: |number| number, |value| value;
}

/// One size of one operation, as one rank sees it.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) op: Operation,
    pub(crate) redop: Reduction,
    pub(crate) in_place: bool,
    /// The number of ranks, and this rank.
    pub(crate) ranks: usize,
    pub(crate) rank: usize,
    /// The number of elements of a block.
    pub(crate) count: usize,
}

impl Case {
    /// The number of elements that this rank sends and receives.
    pub(crate) fn lengths(&self) -> (usize, usize) {
        let (give, get) = self.op.blocks(self.ranks);
        let (give, get) = (give * self.count, get * self.count);
        match self.in_place {
            // Other ranks only have their own block.
            true if self.is_rooted() && self.rank != 0 => (0, give.min(get)),
            true => (0, give.max(get)),
            false => (give, get),
        }
    }

    /// Whether only the root has the whole, in one buffer.
    fn is_rooted(&self) -> bool {
        matches!(self.op, Operation::Gather | Operation::Scatter)
    }

    /// The index of this rank's own block, in one buffer for both.
    fn place(&self) -> usize {
        if self.is_rooted() { 0 } else { self.own() }
    }

    /// The index of this rank's block in the whole.
    fn own(&self) -> usize {
        self.rank * self.count
    }

    /// The content of the send buffer, or of the one for both.
    pub(crate) fn start<T: Value>(&self) -> Vec<T> {
        let (give, get) = self.op.blocks(self.ranks);
        let of = |at| T::of(self.value(self.rank, at));
        if !self.in_place {
            return (0..give * self.count).map(of).collect();
        }
        let mut values = vec![T::default(); self.lengths().1];
        let first = if give < get { self.place() } else { 0 };
        for (at, value) in values[first..].iter_mut().take(give * self.count).enumerate() {
            *value = of(at);
        }
        values
    }

    /// How many elements of the result are wrong.
    pub(crate) fn wrong<T: Value>(&self, found: &[T]) -> u64 {
        let (give, get) = self.op.blocks(self.ranks);
        let only_root = matches!(self.op, Operation::Reduce | Operation::Gather);
        if only_root && self.rank != 0 {
            return 0;
        }
        let first = if self.in_place && get < give { self.place() } else { 0 };
        let found = found[first..first + get * self.count].iter().enumerate();
        let is_wrong = |at, found: T| {
            let wanted = self.wanted(at);
            let tolerance = match self.redop {
                Reduction::Avg if self.op.reduces() => T::TOLERANCE * wanted.abs(),
                _ => 0.0,
            };
            let off = (found.get() - wanted).abs();
            off.is_nan() || off > tolerance
        };
        found.filter(|(at, found)| is_wrong(*at, **found)).count() as u64
    }

    /// The expected result at an index.
    fn wanted(&self, at: usize) -> f64 {
        let (block, within) = (at / self.count, at % self.count);
        match self.op {
            Operation::AllReduce | Operation::Reduce => self.reduced(at),
            Operation::ReduceScatter => self.reduced(self.own() + at),
            Operation::AllGather | Operation::Gather => self.value(block, within),
            Operation::AllToAll => self.value(block, self.own() + within),
            Operation::Broadcast => self.value(0, at),
            Operation::Scatter => self.value(0, self.own() + at),
            Operation::Sendrecv | Operation::PutSignal => {
                self.value((self.rank + self.ranks - 1) % self.ranks, at)
            }
        }
    }

    fn reduced(&self, at: usize) -> f64 {
        let all = (0..self.ranks).map(|rank| self.value(rank, at));
        match self.redop {
            Reduction::Sum => all.sum(),
            Reduction::Prod => all.product(),
            Reduction::Min => all.fold(f64::INFINITY, f64::min),
            Reduction::Max => all.fold(0.0, f64::max),
            Reduction::Avg => all.sum::<f64>() / self.ranks as f64,
        }
    }

    /// A rank's element at an index: small numbers, so that every type can represent their sum.
    fn value(&self, rank: usize, at: usize) -> f64 {
        if self.op.reduces() && self.redop == Reduction::Prod {
            return if at % self.ranks == rank { 2.0 } else { 1.0 };
        }
        let most = (120 / self.ranks).clamp(1, 7);
        ((rank + at) % (most + 1)) as f64
    }
}
