//! What would order two uses of a cell.

use super::memory::{Use, Who};
use crate::program::{Format, Program};

pub(super) fn ordering(program: &Program, earlier: &Use, later: &Use) -> Vec<String> {
    let (first, second) = match (earlier.who, later.who) {
        (Who::Step { block: a, step: x }, Who::Step { block: b, step: y }) => ((a, x), (b, y)),
        (Who::User(rank), Who::Step { .. }) => {
            return vec![format!(
                "wait for a signal with which rank {rank} says that it has begun"
            )];
        }
        (_, Who::User(rank)) => {
            return vec![format!(
                "let rank {rank} wait for a signal that was raised after it, or flush its channel"
            )];
        }
    };
    if program.format == Format::Msccl {
        // Which one was played first says nothing about which one is meant to be.
        let (write, other) = if earlier.writes { (first, second) } else { (second, first) };
        return vec![
            format!("if {} is to come first: {}", name(program, write), dep(program, write, other)),
            format!("if {} is: {}", name(program, other), dep(program, other, write)),
        ];
    }
    let (block, other) = (&program.blocks[first.0 as usize], &program.blocks[second.0 as usize]);
    let help = if earlier.run != later.run {
        "let the first rank signal after it, and the second wait before it"
    } else if first.0 == second.0 {
        "put a `nop` between them, at which the block's threads wait for each other"
    } else if block.rank == other.rank {
        "put a barrier or a semaphore between them, with `nop`s around it"
    } else {
        "signal after the first, with a `nop` before the signal, and wait before the second, with \
         a `nop` after the wait"
    };
    vec![help.to_owned()]
}

fn name(program: &Program, (block, step): (u32, u32)) -> String {
    let block = &program.blocks[block as usize];
    format!("step {} of block {}", block.steps[step as usize].number, block.id)
}

fn dep(program: &Program, first: (u32, u32), second: (u32, u32)) -> String {
    let block = &program.blocks[first.0 as usize];
    format!(
        "`depid=\"{}\" deps=\"{}\"` at {}, and `hasdep=\"1\"` there",
        block.id,
        block.steps[first.1 as usize].number,
        name(program, second)
    )
}
