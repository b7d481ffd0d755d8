//! Where each chunk of each buffer is: cells, counted through all ranks.
//!
//! A chunk has one cell, or several if thread blocks or turns of a pipeline share it.

use crate::program::Collective;

/// A buffer of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Buffer {
    Input,
    Output,
    Scratch,
    /// Scratch that holds packets.
    Packets,
}

/// How many chunks a rank's buffers have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    pub(crate) input: u32,
    pub(crate) output: u32,
    pub(crate) scratch: u32,
    pub(crate) packets: u32,
}

#[derive(Debug)]
pub(crate) struct Cells {
    collective: Collective,
    in_place: bool,
    sizes: Vec<Sizes>,
    /// Where each rank's cells begin: inputs, outputs, scratch, packets.
    begins: Vec<[u32; 4]>,
    total: u32,
    /// Cells of a chunk.
    pub(crate) fine: u32,
    /// Whether scratch has two halves.
    halves: u32,
}

impl Cells {
    /// The cells of buffers of these sizes, if they are no more than `most`.
    pub(crate) fn new(
        (collective, in_place): (Collective, bool),
        sizes: Vec<Sizes>,
        (fine, doubled): (u32, bool),
        most: u32,
    ) -> Option<Self> {
        let halves = if doubled { 2 } else { 1 };
        let mut begins = Vec::with_capacity(sizes.len());
        let mut total = 0_u64;
        for size in &sizes {
            let chunks = [
                size.input.max(if in_place { size.output } else { 0 }),
                size.output,
                size.scratch,
                size.packets,
            ];
            let mut begin = [0; 4];
            for (begin, (chunks, copies)) in
                begin.iter_mut().zip(chunks.into_iter().zip([1, 1, halves, halves]))
            {
                *begin = u32::try_from(total).ok()?;
                total += u64::from(chunks) * u64::from(fine) * u64::from(copies);
                if total > u64::from(most) {
                    return None;
                }
            }
            begins.push(begin);
        }
        let total = u32::try_from(total).ok()?;
        Some(Self { collective, in_place, sizes, begins, total, fine, halves })
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.sizes.len() as u32
    }

    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    pub(crate) fn sizes(&self, rank: u32) -> Sizes {
        self.sizes[rank as usize]
    }

    /// How many chunks a buffer has.
    pub(crate) fn chunks(&self, rank: u32, buffer: Buffer) -> u32 {
        let sizes = self.sizes[rank as usize];
        match buffer {
            Buffer::Input => sizes.input,
            Buffer::Output => sizes.output,
            Buffer::Scratch => sizes.scratch,
            Buffer::Packets => sizes.packets,
        }
    }

    /// The distance between the halves of a buffer, 0 if it has one.
    pub(crate) fn stride(&self, rank: u32, buffer: Buffer) -> u32 {
        match buffer {
            Buffer::Scratch | Buffer::Packets if self.halves == 2 => {
                self.chunks(rank, buffer) * self.fine
            }
            _ => 0,
        }
    }

    /// A cell of a buffer. Of buffers that share their memory, both have the same cells.
    pub(crate) fn cell(&self, rank: u32, buffer: Buffer, at: u32) -> Option<u32> {
        let sizes = self.sizes.get(rank as usize)?;
        if at >= self.chunks(rank, buffer) * self.fine {
            return None;
        }
        let [input, output, scratch, packets] = self.begins[rank as usize];
        Some(match (buffer, self.collective) {
            (Buffer::Input, Collective::AllGather) if self.in_place => {
                output + share(rank, at, sizes.input, sizes.output, self.fine)?
            }
            (Buffer::Output, Collective::ReduceScatter) if self.in_place => {
                input + share(rank, at, sizes.output, sizes.input, self.fine)?
            }
            (Buffer::Output, collective)
                if self.in_place && collective != Collective::AllGather =>
            {
                input + at
            }
            (Buffer::Input, _) => input + at,
            (Buffer::Output, _) => output + at,
            (Buffer::Scratch, _) => scratch + at,
            (Buffer::Packets, _) => packets + at,
        })
    }

    /// The cells of a buffer, in order.
    pub(crate) fn all(&self, rank: u32, buffer: Buffer) -> impl Iterator<Item = u32> + '_ {
        let count = self.chunks(rank, buffer) * self.fine;
        (0..count).filter_map(move |at| self.cell(rank, buffer, at))
    }

    /// The rank of a cell, its buffer and its chunk. Memory that is shared is called input, or
    /// output if that is the larger one.
    pub(crate) fn of(&self, cell: u32) -> (u32, Buffer, u32) {
        let rank = self.begins.partition_point(|begin| begin[0] <= cell).saturating_sub(1);
        let begins = self.begins[rank];
        let buffers = [Buffer::Input, Buffer::Output, Buffer::Scratch, Buffer::Packets];
        // Of several that begin here, the last one is the one that is not empty.
        let (begin, buffer) = begins
            .into_iter()
            .zip(buffers)
            .rfind(|(begin, _)| *begin <= cell)
            .unwrap_or((begins[0], Buffer::Input));
        let mut at = cell - begin;
        if self.stride(rank as u32, buffer) > 0 {
            at %= self.stride(rank as u32, buffer);
        }
        (rank as u32, buffer, at / self.fine)
    }

    /// A cell in words: `input chunk 3`.
    pub(crate) fn show(&self, cell: u32) -> String {
        let (rank, buffer, chunk) = self.of(cell);
        let name = match buffer {
            Buffer::Input if self.in_place => "in-place chunk",
            Buffer::Output if self.in_place && self.collective == Collective::AllGather => {
                "in-place chunk"
            }
            Buffer::Input => "input chunk",
            Buffer::Output => "output chunk",
            Buffer::Scratch => "scratch chunk",
            Buffer::Packets => "packet chunk",
        };
        format!("{name} {chunk} of rank {rank}")
    }
}

/// A cell of a rank's share of a buffer, if it has that share.
fn share(rank: u32, at: u32, chunks: u32, whole: u32, fine: u32) -> Option<u32> {
    let at = u64::from(rank) * u64::from(chunks) * u64::from(fine) + u64::from(at);
    (at < u64::from(whole) * u64::from(fine)).then_some(at as u32)
}
