//! A picture of blocks that cannot go on: what each has done, where it waits, what would follow.

use std::fmt::Write as _;

use super::{Play, Position};

/// Blocks that are drawn.
const BLOCKS: usize = 8;

/// Steps before and after the one at which a block waits.
const AROUND: usize = 3;

pub(super) fn of(play: &Play<'_>, blocks: &[u32]) -> String {
    let mut text = String::new();
    let names: Vec<String> = blocks.iter().take(BLOCKS).map(|block| name(play, *block)).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    for (name, &block) in names.iter().zip(blocks) {
        let Position { step, .. } = play.positions[block as usize];
        let (now, steps) = (step as usize, &play.program.blocks[block as usize].steps);
        let begin = now.saturating_sub(AROUND);
        let _ = write!(text, "{name:width$} |");
        if begin > 0 {
            let _ = write!(text, " ({begin} before)");
        }
        for (at, step) in steps.iter().enumerate().take(now + AROUND + 1).skip(begin) {
            let shown = format!("{}:{}", step.number, step.name);
            let _ = match at == now {
                true => write!(text, " [{shown}]"),
                false => write!(text, " {shown}"),
            };
        }
        let after = steps.len().saturating_sub(now + AROUND + 1);
        if after > 0 {
            let _ = write!(text, " ({after} after)");
        }
        text.push('\n');
    }
    if blocks.len() > BLOCKS {
        let _ = writeln!(text, "and {} more", blocks.len() - BLOCKS);
    }
    text
}

fn name(play: &Play<'_>, block: u32) -> String {
    let block = &play.program.blocks[block as usize];
    format!("rank {} block {}", block.rank, block.id)
}
