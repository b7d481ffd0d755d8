//! An operation's chunks as places, cell by cell.

use std::fmt;

use super::operation::Reader;
use super::schema::{ChannelType, Op, Range};
use crate::cells::Buffer;
use crate::program::Place;

/// What of an operation a block does: all of it, its part of a group's, one turn of a pipeline's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) turn: Option<u32>,
}

/// Why an operation has no places.
#[derive(Debug)]
pub(super) enum Lacks {
    /// It names a buffer or a channel that the block does not have.
    Name,
    /// It is outside of a buffer.
    Outside(u32, &'static str, u32),
    /// It has fewer chunks than the operation needs.
    Operand,
    /// A pipeline has more turns than the operation has parts.
    Turns,
}

/// Whether scratch holds packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum As {
    Plain,
    Packets,
}

impl fmt::Display for Lacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => f.write_str("names a buffer or a channel that the block does not have"),
            Self::Outside(rank, buffer, chunks) => {
                write!(f, "is outside of the {buffer} of rank {rank}, which has {chunks} chunks")
            }
            Self::Operand => f.write_str("has too few sources or targets, or of different sizes"),
            Self::Turns => f.write_str("is over before its pipeline is"),
        }
    }
}

impl Reader<'_, '_> {
    /// The cells of a range from its first one on, that this block uses in this turn.
    fn slice(&self, op: &Op<'_>, range: Range, part: Part) -> Result<(u64, u64), Lacks> {
        let fine = u64::from(self.cut.fine);
        let (begin, length) = (u64::from(range.index) * fine, u64::from(range.size) * fine);
        let (mut begin, mut length) = match op.tbg_info {
            Some(group) if group.tbg_size > 0 => {
                let each = length / u64::from(group.tbg_size);
                (begin.saturating_add(u64::from(group.tb_id).saturating_mul(each)), each)
            }
            _ => (begin, length),
        };
        if let (Some(turn), Some(turns)) = (part.turn, self.cut.turns) {
            let unit = fine / u64::from(turns);
            let offset = u64::from(turn) * unit;
            if offset >= length {
                return Err(Lacks::Turns);
            }
            begin = begin.saturating_add(offset);
            length = unit.min(length - offset);
        }
        Ok((begin, length))
    }

    /// Places of a buffer of a rank. Other ranks do not know which half of scratch is used, except
    /// for packets.
    fn places(
        &mut self,
        (rank, buffer): (u32, Buffer),
        (begin, length): (u64, u64),
        kind: As,
        is_own: bool,
    ) -> Result<Vec<Place>, Lacks> {
        let cells = &self.program.cells;
        let buffer = match (buffer, kind) {
            (Buffer::Scratch, As::Packets) => Buffer::Packets,
            (_, As::Packets) => return Err(Lacks::Name),
            (other, As::Plain) => other,
        };
        let chunks = cells.chunks(rank, buffer);
        let fine = u64::from(cells.fine);
        if begin.saturating_add(length) > u64::from(chunks) * fine {
            let name = match buffer {
                Buffer::Input => "input",
                Buffer::Output => "output",
                Buffer::Scratch | Buffer::Packets => "scratch",
            };
            return Err(Lacks::Outside(rank, name, chunks));
        }
        let used = match buffer {
            Buffer::Scratch => Some(&mut self.packets.plain),
            Buffer::Packets => Some(&mut self.packets.packets),
            Buffer::Input | Buffer::Output => None,
        };
        if let Some(used) = used {
            used.extend(
                (begin / fine..(begin + length).div_ceil(fine)).map(|at| (rank, at as u32)),
            );
        }
        let stride = match is_own || kind == As::Packets {
            true => cells.stride(rank, buffer),
            false => 0,
        };
        let place = |at: u64| {
            let cell = cells.cell(rank, buffer, at as u32);
            let cell = cell.ok_or(Lacks::Outside(rank, "buffer", chunks))?;
            Ok(match kind {
                As::Plain => Place::Cell { cell, stride },
                As::Packets => Place::Packet { cell, stride },
            })
        };
        (begin..begin + length).map(place).collect()
    }

    /// A range of the rank's own buffers.
    pub(super) fn own(
        &mut self,
        op: &Op<'_>,
        range: Option<&Range>,
        kind: As,
        part: Part,
    ) -> Result<Vec<Place>, Lacks> {
        let range = *range.ok_or(Lacks::Operand)?;
        let buffer = range.buffer.ok_or(Lacks::Name)?.buffer();
        let slice = self.slice(op, range, part)?;
        self.places((self.rank, buffer), slice, kind, true)
    }

    /// A range of another rank's.
    pub(super) fn remote(
        &mut self,
        op: &Op<'_>,
        range: Option<&Range>,
        kind: As,
        part: Part,
    ) -> Result<Vec<Place>, Lacks> {
        let range = *range.ok_or(Lacks::Operand)?;
        let id = range.buffer_id.ok_or(Lacks::Name)?;
        let access = op.channel_type.unwrap_or(ChannelType::None);
        let known = self.channels.buffer(self.rank, self.block, access, id);
        let (rank, buffer) = known.ok_or(Lacks::Name)?;
        let slice = self.slice(op, range, part)?;
        self.places((rank, buffer.buffer()), slice, kind, false)
    }

    /// A range of each rank of a switch channel.
    pub(super) fn switched(
        &mut self,
        op: &Op<'_>,
        range: Option<&Range>,
        kind: As,
        part: Part,
    ) -> Result<Vec<Vec<Place>>, Lacks> {
        let range = *range.ok_or(Lacks::Operand)?;
        let id = range.switch_channel_id.ok_or(Lacks::Name)?;
        let known = self.channels.switch(self.rank, self.block, id);
        let (buffer, ranks) = known.ok_or(Lacks::Name)?;
        let ranks = ranks.to_vec();
        let slice = self.slice(op, range, part)?;
        let each = |rank| self.places((rank, buffer.buffer()), slice, kind, false);
        ranks.into_iter().map(each).collect()
    }
}
