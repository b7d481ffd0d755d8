//! Command-line options.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use typed_nccl::{DType, DynReduceOp};

/// Measures collectives and prints a table like nccl-tests.
#[derive(Parser, Debug, Clone)]
#[command(name = "perf", args_override_self = true)]
pub(crate) struct Options {
    /// The operation.
    #[arg(long, value_enum, default_value = "all-reduce", alias = "operation")]
    pub(crate) op: Operation,
    /// The number of ranks: threads of this process, each with a device. 2 with --device alone;
    /// without either, TYPED_NCCL or a launcher decides.
    #[arg(long)]
    pub(crate) ranks: Option<usize>,
    /// The smallest size in bytes, as 8, 4K or 1M.
    #[arg(long, default_value = "1K", value_parser = bytes)]
    pub(crate) min: u64,
    /// The largest.
    #[arg(long, default_value = "64M", value_parser = bytes)]
    pub(crate) max: u64,
    /// The factor from one size to the next.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..))]
    pub(crate) factor: u64,
    /// The element type.
    #[arg(long, value_enum, default_value = "f32")]
    pub(crate) dtype: Elements,
    /// The reduction.
    #[arg(long, value_enum, default_value = "sum")]
    pub(crate) redop: Reduction,
    /// The devices of these threads; the host's with --ranks alone.
    #[arg(long, value_enum)]
    pub(crate) device: Option<Kind>,
    /// In one buffer.
    #[arg(long)]
    pub(crate) in_place: bool,
    /// Put the memory into symmetric windows; that of put-signal always is.
    #[arg(long)]
    pub(crate) window: bool,
    /// Put all measured calls into one graph, like nccl-tests' `-G 1`; with --plan each run is one.
    #[arg(long)]
    pub(crate) graph: bool,
    /// Use a checked plan, bound once for each size.
    #[arg(long)]
    pub(crate) plan: bool,
    /// Compare the results with the expected ones.
    #[arg(long)]
    pub(crate) check: bool,
    /// The number of calls that are measured together.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iters: u32,
    /// The number of calls before them.
    #[arg(long, default_value_t = 5)]
    pub(crate) warmup: u32,
    /// How the ranks' times are combined.
    #[arg(long, value_enum, default_value = "mean")]
    pub(crate) average: Average,
    /// Write the numbers to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Draw the numbers into this file.
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
    /// Change an element before the check, which must detect it.
    #[arg(long, hide = true)]
    pub(crate) spoil: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    #[value(alias = "all_reduce")]
    AllReduce,
    #[value(alias = "all_gather")]
    AllGather,
    #[value(alias = "reduce_scatter")]
    ReduceScatter,
    #[value(alias = "all_to_all")]
    AllToAll,
    Broadcast,
    Reduce,
    Gather,
    Scatter,
    /// To the next rank, from the previous one.
    Sendrecv,
    /// Into the next rank's window with a signal, and a wait for the previous one's. A plan also
    /// signals back, so that no run overwrites the last one's data.
    #[value(alias = "put_signal")]
    PutSignal,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Elements {
    I8,
    U8,
    I32,
    U32,
    I64,
    U64,
    F16,
    Bf16,
    F32,
    F64,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reduction {
    Sum,
    Prod,
    Min,
    Max,
    Avg,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Host,
    Cuda,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Average {
    Mean,
    Max,
    Min,
}

impl Options {
    /// The sizes in bytes, the smallest first.
    pub(crate) fn sizes(&self) -> Vec<u64> {
        let next = |size: &u64| size.checked_mul(self.factor);
        std::iter::successors(Some(self.min.max(1)), next)
            .take_while(|&size| size <= self.max)
            .collect()
    }

    /// Options that exclude each other.
    pub(crate) fn fault(&self) -> Option<String> {
        let op = self.op.name();
        if self.ranks == Some(0) || self.sizes().is_empty() {
            return Some(
                "at least one rank and one size are needed: --ranks 2 --min 1K --max 1M".to_owned(),
            );
        }
        if self.in_place && !self.op.has_in_place() {
            return Some(format!("{op} has no form in one buffer: leave --in-place out"));
        }
        if self.redop == Reduction::Avg && !self.dtype.get().is_float() {
            return Some("--redop avg takes floating-point elements: --dtype f32".to_owned());
        }
        if self.plan && (self.in_place || self.redop != Reduction::Sum) {
            return Some("--plan takes two buffers and --redop sum".to_owned());
        }
        None
    }
}

impl Operation {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllToAll => "all_to_all",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Sendrecv => "sendrecv",
            Self::PutSignal => "put_signal",
        }
    }

    pub(crate) fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::ReduceScatter | Self::Reduce)
    }

    fn has_in_place(self) -> bool {
        !matches!(self, Self::AllToAll | Self::Sendrecv | Self::PutSignal)
    }

    /// Whether it works on windows only.
    pub(crate) fn takes_windows(self) -> bool {
        self == Self::PutSignal
    }

    /// How many blocks of `count` elements a rank sends and receives, of `n` ranks.
    pub(crate) fn blocks(self, n: usize) -> (usize, usize) {
        match self {
            Self::AllReduce | Self::Broadcast | Self::Reduce => (1, 1),
            Self::Sendrecv | Self::PutSignal => (1, 1),
            Self::AllGather | Self::Gather => (1, n),
            Self::ReduceScatter | Self::Scatter => (n, 1),
            Self::AllToAll => (n, n),
        }
    }

    /// The factor from algorithm to bus bandwidth in nccl-tests: the bandwidth of the slowest wire.
    pub(crate) fn bus_factor(self, n: usize) -> f64 {
        let others = (n as f64 - 1.0) / n as f64;
        match self {
            Self::AllReduce => 2.0 * others,
            Self::AllGather | Self::ReduceScatter | Self::AllToAll => others,
            Self::Gather | Self::Scatter => others,
            Self::Broadcast | Self::Reduce | Self::Sendrecv | Self::PutSignal => 1.0,
        }
    }
}

impl Elements {
    pub(crate) fn get(self) -> DType {
        match self {
            Self::I8 => DType::I8,
            Self::U8 => DType::U8,
            Self::I32 => DType::I32,
            Self::U32 => DType::U32,
            Self::I64 => DType::I64,
            Self::U64 => DType::U64,
            Self::F16 => DType::F16,
            Self::Bf16 => DType::Bf16,
            Self::F32 => DType::F32,
            Self::F64 => DType::F64,
        }
    }
}

impl Reduction {
    pub(crate) fn get(self) -> DynReduceOp {
        match self {
            Self::Sum => DynReduceOp::Add,
            Self::Prod => DynReduceOp::Multiply,
            Self::Min => DynReduceOp::Least,
            Self::Max => DynReduceOp::Greatest,
            Self::Avg => DynReduceOp::Mean,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Prod => "prod",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
        }
    }
}

impl Average {
    pub(crate) fn of(self, times: &[f64]) -> f64 {
        match self {
            Self::Mean => times.iter().sum::<f64>() / times.len() as f64,
            Self::Max => times.iter().copied().fold(0.0, f64::max),
            Self::Min => times.iter().copied().fold(f64::INFINITY, f64::min),
        }
    }
}

/// `8`, `4K`, `1M`, `2G`.
fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.trim_end_matches(['B', 'b']).to_ascii_uppercase() {
        text if text.ends_with('K') => (text.trim_end_matches('K').to_owned(), 10),
        text if text.ends_with('M') => (text.trim_end_matches('M').to_owned(), 20),
        text if text.ends_with('G') => (text.trim_end_matches('G').to_owned(), 30),
        text => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| format!("{text} is no size such as 4K"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text} is too much"))
}
