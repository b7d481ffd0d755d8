//! The naive model: each rank's send operands go in, each rank's receive operands come out, by
//! rank. A rank without the operand has an empty vector.

use super::call::{Collective, Op};
use super::elements::Value;

/// A reduction, with one scalar per rank for `PreMulSum`.
pub(crate) struct How<T> {
    pub(crate) op: Op,
    pub(crate) scalars: Vec<T>,
}

pub(crate) fn collective<T: Value>(
    what: Collective,
    root: usize,
    how: &How<T>,
    sends: &[Vec<T>],
) -> Vec<Vec<T>> {
    match what {
        Collective::AllReduce => all_reduce(sends, how),
        Collective::Broadcast => broadcast(sends, root),
        Collective::Reduce => reduce(sends, how, root),
        Collective::AllGather => all_gather(sends),
        Collective::ReduceScatter => reduce_scatter(sends, how),
        Collective::AllToAll => all_to_all(sends),
        Collective::Gather => gather(sends, root),
        Collective::Scatter => scatter(sends, root),
    }
}

fn all_reduce<T: Value>(sends: &[Vec<T>], how: &How<T>) -> Vec<Vec<T>> {
    vec![combine(sends, how); sends.len()]
}

fn broadcast<T: Value>(sends: &[Vec<T>], root: usize) -> Vec<Vec<T>> {
    vec![sends[root].clone(); sends.len()]
}

fn reduce<T: Value>(sends: &[Vec<T>], how: &How<T>, root: usize) -> Vec<Vec<T>> {
    only(root, combine(sends, how), sends.len())
}

fn all_gather<T: Value>(sends: &[Vec<T>]) -> Vec<Vec<T>> {
    vec![sends.concat(); sends.len()]
}

fn reduce_scatter<T: Value>(sends: &[Vec<T>], how: &How<T>) -> Vec<Vec<T>> {
    blocks(&combine(sends, how), sends.len())
}

fn all_to_all<T: Value>(sends: &[Vec<T>]) -> Vec<Vec<T>> {
    let n = sends.len();
    let sent: Vec<Vec<Vec<T>>> = sends.iter().map(|send| blocks(send, n)).collect();
    (0..n).map(|to| (0..n).flat_map(|from| sent[from][to].clone()).collect()).collect()
}

fn gather<T: Value>(sends: &[Vec<T>], root: usize) -> Vec<Vec<T>> {
    only(root, sends.concat(), sends.len())
}

fn scatter<T: Value>(sends: &[Vec<T>], root: usize) -> Vec<Vec<T>> {
    blocks(&sends[root], sends.len())
}

fn only<T: Value>(root: usize, values: Vec<T>, n: usize) -> Vec<Vec<T>> {
    let mut received = vec![Vec::new(); n];
    received[root] = values;
    received
}

fn blocks<T: Value>(values: &[T], n: usize) -> Vec<Vec<T>> {
    let len = values.len() / n;
    (0..n).map(|block| values[block * len..(block + 1) * len].to_vec()).collect()
}

fn combine<T: Value>(sends: &[Vec<T>], how: &How<T>) -> Vec<T> {
    let element = |i: usize| {
        let mut acc = scaled(sends[0][i], 0, how);
        for (rank, send) in sends.iter().enumerate().skip(1) {
            acc = step::<T>(how.op, acc, scaled(send[i], rank, how));
        }
        T::lower(if how.op == Op::Avg { T::div(acc, sends.len()) } else { acc })
    };
    (0..sends[0].len()).map(element).collect()
}

fn scaled<T: Value>(x: T, rank: usize, how: &How<T>) -> T::Acc {
    match how.op {
        Op::PreMulSum => T::mul(x.raise(), how.scalars[rank].raise()),
        _ => x.raise(),
    }
}

fn step<T: Value>(op: Op, a: T::Acc, b: T::Acc) -> T::Acc {
    match op {
        Op::Sum | Op::Avg | Op::PreMulSum => T::add(a, b),
        Op::Prod => T::mul(a, b),
        Op::Min | Op::Max if T::is_nan(a) => b,
        Op::Min | Op::Max if T::is_nan(b) => a,
        Op::Min => {
            if T::less(b, a) {
                b
            } else {
                a
            }
        }
        Op::Max => {
            if T::less(a, b) {
                b
            } else {
                a
            }
        }
    }
}
