//! A schedule of either format as data: for each rank thread blocks, each a list of steps.

use std::fmt;

use typed_nccl_plan::ir::Location;
use typed_nccl_plan::verdict::Problem;

use crate::cells::Cells;

/// The formats that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The XML of msccl-tools, which MSCCL's runtime executes.
    Msccl,
    /// The JSON of MSCCL++'s DSL, which its executor executes.
    Mscclpp,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Msccl => "MSCCL",
            Self::Mscclpp => "MSCCL++",
        })
    }
}

/// What the schedule says it computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Every rank has the sum of all.
    AllReduce,
    /// Every rank has what all have, in order of rank.
    AllGather,
    /// Every rank has its share of the sum.
    ReduceScatter,
    /// Every rank has one share of each.
    AllToAll,
    /// Every rank has what rank 0 has.
    Broadcast,
    /// Rank 0 has the sum of all.
    Reduce,
    /// Every rank has what the rank before it has.
    Shift,
    /// Nothing is claimed.
    Custom,
}

/// A schedule for all ranks.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) format: Format,
    pub(crate) collective: Collective,
    pub(crate) cells: Cells,
    /// Where each rank begins in the file.
    pub(crate) begins: Vec<Location>,
    /// The blocks of rank 0 first.
    pub(crate) blocks: Vec<Block>,
    pub(crate) fifos: Vec<Fifo>,
    pub(crate) signals: Vec<Signal>,
    pub(crate) semaphores: Vec<Semaphore>,
    pub(crate) barriers: Vec<Barrier>,
    /// Of each queue of the host's proxy, its rank.
    pub(crate) proxies: Vec<u32>,
    /// Whether a block's threads have to be synchronised by steps of their own.
    pub(crate) threads_apart: bool,
    /// How often the schedule is played, one run after the other.
    pub(crate) runs: u32,
    /// What was found while reading. With a [fatal](Self::is_fatal) one, it is not played.
    pub(crate) problems: Vec<Problem>,
    pub(crate) is_fatal: bool,
    pub(crate) assumed: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) rank: u32,
    pub(crate) id: u32,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) at: Location,
    /// The number that the file or its order gives.
    pub(crate) number: u32,
    /// The operation, as the format spells it.
    pub(crate) name: String,
    pub(crate) acts: Vec<Act>,
}

/// What a step does, one after the other.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// The sum of the sources goes to every target.
    Move {
        by: By,
        from: Vec<Place>,
        to: Vec<Place>,
    },
    Post {
        signal: u32,
        by: By,
        relaxed: bool,
    },
    Await {
        signal: u32,
        relaxed: bool,
    },
    /// A block's threads wait for each other.
    Sync,
    /// So many blocks wait for each other.
    Barrier {
        barrier: u32,
        blocks: u32,
    },
    Acquire(u32),
    Release(u32),
    /// Waits until a proxy has done all that it was asked.
    Flush(u32),
    /// The block has come to this step.
    Flag(u32),
    /// Another block of the rank has come to this step: its index, if there is one.
    AwaitFlag {
        block: Option<u32>,
        id: i64,
        number: u32,
    },
}

/// Who moves data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Block,
    Proxy(u32),
}

/// Where data is. What has two halves that take turns, from run to run, has a stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Cell {
        cell: u32,
        stride: u32,
    },
    /// Memory whose readers wait until it was written in this run.
    Packet {
        cell: u32,
        stride: u32,
    },
    /// The next message of a connection.
    Message(u32),
}

/// A connection of MSCCL: messages in order, with room for a few.
#[derive(Debug)]
pub(crate) struct Fifo {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) channel: u32,
    pub(crate) slots: u32,
}

/// A counter that one rank raises and another waits for.
#[derive(Debug)]
pub(crate) struct Signal {
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// The kind and number of its channel.
    pub(crate) name: String,
}

#[derive(Debug)]
pub(crate) struct Semaphore {
    pub(crate) id: u32,
    pub(crate) initial: i64,
}

#[derive(Debug)]
pub(crate) struct Barrier {
    pub(crate) id: u32,
}

impl Program {
    pub(crate) fn ranks(&self) -> u32 {
        self.cells.ranks()
    }

    pub(crate) fn steps(&self) -> usize {
        self.blocks.iter().map(|block| block.steps.len()).sum()
    }
}

impl Collective {
    /// The collective that both formats spell like this, apart from case and underscores.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "allreduce" => Self::AllReduce,
            "allgather" => Self::AllGather,
            "reduce_scatter" | "reducescatter" => Self::ReduceScatter,
            "alltoall" => Self::AllToAll,
            "broadcast" => Self::Broadcast,
            "reduce" => Self::Reduce,
            "sendrecv" => Self::Shift,
            "custom" | "test" => Self::Custom,
            _ => return None,
        })
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllToAll => "all_to_all",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Shift => "send to the next rank",
            Self::Custom => "custom",
        })
    }
}
