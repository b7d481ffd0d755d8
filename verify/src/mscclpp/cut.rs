//! Into how many cells a chunk is cut: blocks that share an operation have parts of its chunks, and
//! each turn of a pipeline has a part.

use super::Source;
use super::schema::{Op, Plan};
use crate::limits;
use crate::unreadable::Unreadable;

/// Turns of a pipeline that are looked at.
const TURNS: u32 = 4;

#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// Cells of a chunk.
    pub(super) fine: u32,
    /// Turns for each chunk, if there are pipelines.
    pub(super) turns: Option<u32>,
}

impl Cut {
    pub(super) fn of(plan: &Plan<'_>, source: &Source<'_>) -> Result<Self, Unreadable> {
        let mut cut = Self { fine: 1, turns: None };
        let mut parts = 1;
        for block in plan.gpus.iter().flat_map(|gpu| &gpu.threadblocks) {
            for &raw in &block.ops {
                let op = source.op(raw)?;
                parts = with(parts, &op)?;
                if let Some(turns) = op.iter_context {
                    let each = TURNS.div_ceil(turns.num_chunks.max(1));
                    cut.turns = Some(cut.turns.unwrap_or(1).max(each));
                }
                for &inner in &op.ops {
                    parts = with(parts, &source.op(inner)?)?;
                }
            }
        }
        let fine = u64::from(parts) * u64::from(cut.turns.unwrap_or(1));
        if fine > u64::from(limits::FINE) {
            return Err(Unreadable::too_large("parts of a chunk", limits::FINE));
        }
        cut.fine = fine as u32;
        Ok(cut)
    }
}

/// The smallest number of parts with which an operation's blocks also have whole ones.
fn with(parts: u32, op: &Op<'_>) -> Result<u32, Unreadable> {
    let Some(group) = op.tbg_info else { return Ok(parts) };
    let size = group.tbg_size.clamp(1, limits::FINE);
    let mut parts = u64::from(parts);
    for range in op.src_buff.iter().chain(&op.dst_buff) {
        let needed = u64::from(size) / common(u64::from(size), u64::from(range.size.max(1)));
        parts = parts / common(parts, needed) * needed;
        if parts > u64::from(limits::FINE) {
            return Err(Unreadable::too_large("parts of a chunk", limits::FINE));
        }
    }
    Ok(parts as u32)
}

fn common(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common(b, a % b) }
}
