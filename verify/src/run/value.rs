//! What a cell holds: of which ranks' inputs it is the sum.

use std::rc::Rc;

use crate::cells::{Buffer, Cells};

/// Chunks of inputs by number, each with how often it is in the sum. None: never written.
pub(crate) type Value = Option<Rc<[(u32, u32)]>>;

/// The numbers of all ranks' input cells.
pub(crate) struct Inputs {
    begins: Vec<u32>,
    fine: u32,
}

impl Inputs {
    pub(crate) fn new(cells: &Cells) -> Self {
        let mut begins = vec![0];
        let mut sum = 0;
        for rank in 0..cells.ranks() {
            sum += cells.chunks(rank, Buffer::Input) * cells.fine;
            begins.push(sum);
        }
        Self { begins, fine: cells.fine }
    }

    /// The number of a rank's input cell, if it has it.
    pub(crate) fn number(&self, rank: u32, at: u32) -> Option<u32> {
        let number = self.begins.get(rank as usize)?.checked_add(at)?;
        (number < *self.begins.get(rank as usize + 1)?).then_some(number)
    }

    /// The rank and the chunk.
    fn of(&self, number: u32) -> (u32, u32) {
        let rank = self.begins.partition_point(|begin| *begin <= number).saturating_sub(1);
        (rank as u32, (number - self.begins[rank]) / self.fine)
    }

    /// A value in words: `chunk 3 of ranks 0, 1 and 2`.
    pub(crate) fn show(&self, value: &Value) -> String {
        let Some(parts) = value else { return "nothing that was written".to_owned() };
        let mut by_chunk: Vec<(u32, u32, Vec<u32>)> = Vec::new();
        for &(number, count) in parts.iter() {
            let (rank, chunk) = self.of(number);
            let of = |(at, often, _): &(u32, u32, Vec<u32>)| (*at, *often) == (chunk, count);
            match by_chunk.iter().position(of) {
                Some(at) => by_chunk[at].2.push(rank),
                None if by_chunk.len() < 4 => by_chunk.push((chunk, count, vec![rank])),
                None => return format!("{}, and more", words(&by_chunk)),
            }
        }
        words(&by_chunk)
    }
}

fn words(by_chunk: &[(u32, u32, Vec<u32>)]) -> String {
    let mut all = Vec::new();
    for (chunk, count, ranks) in by_chunk {
        let often = match count {
            1 => String::new(),
            2 => ", twice".to_owned(),
            many => format!(", {many} times"),
        };
        all.push(format!("chunk {chunk} of {}{often}", show_ranks(ranks)));
    }
    all.join(" + ")
}

/// `rank 3`, `ranks 0, 1 and 2`, `ranks 0 to 7`.
pub(crate) fn show_ranks(ranks: &[u32]) -> String {
    match ranks {
        [] => "no rank".to_owned(),
        [one] => format!("rank {one}"),
        [first, .., last] if ranks.len() > 2 && ranks.windows(2).all(|w| w[0] + 1 == w[1]) => {
            format!("ranks {first} to {last}")
        }
        [some @ .., last] => {
            let some: Vec<String> = some.iter().take(16).map(u32::to_string).collect();
            format!("ranks {} and {last}", some.join(", "))
        }
    }
}

/// The sum of two values, and the work that it was.
pub(crate) fn sum(one: &Value, other: &Value) -> (Value, u64) {
    let (Some(one), Some(other)) = (one, other) else { return (None, 1) };
    let mut all = Vec::with_capacity(one.len() + other.len());
    let (mut a, mut b) = (one.iter().peekable(), other.iter().peekable());
    while let (Some(&&x), Some(&&y)) = (a.peek(), b.peek()) {
        if x.0 == y.0 {
            all.push((x.0, x.1.saturating_add(y.1)));
            a.next();
            b.next();
        } else if x.0 < y.0 {
            all.push(x);
            a.next();
        } else {
            all.push(y);
            b.next();
        }
    }
    all.extend(a.chain(b).copied());
    let work = all.len() as u64;
    (Some(all.into()), work)
}
