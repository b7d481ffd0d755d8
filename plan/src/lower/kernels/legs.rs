//! Arranges the messages of several ranks as one kernel's.

use serde::{Deserialize, Serialize};

use super::{Among, MOST_IN_A_KERNEL};
use crate::draw::Links;
use crate::ir::{ElementType, Plan};
use crate::lower::{Elements, Operation};

/// At most one message to and one from each rank, all of one length. A kernel has the same legs on
/// all ranks, in one order: a rank that is sent something in a leg receives it in that leg.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leg {
    /// Elements of each message.
    pub len: u64,
    /// The operation of the kernel that sends, on a rank that sends something.
    pub send: Option<u32>,
    /// The operation that receives.
    pub receive: Option<u32>,
}

/// The legs of each rank's call; `None` if some messages of these calls go elsewhere, their element
/// types differ or are no kernel's, or there are too many.
pub(super) fn legs(
    plan: &Plan,
    links: &Links<'_>,
    among: &Among,
    calls: &[usize],
) -> Option<(ElementType, Vec<Vec<Leg>>)> {
    let numbers = among.ranks.iter().zip(calls);
    let numbers: Vec<u32> = numbers.map(|(&rank, &nth)| links.number(rank, nth)).collect();
    let operation = |call: u32, op: u32| links.operations(call).get(op as usize);
    let mut element = None;
    let (mut messages, mut legs) = (0, vec![Vec::<Leg>::new(); numbers.len()]);
    for (sender, &number) in numbers.iter().enumerate() {
        for pair in links.messages_from(number) {
            let receiver = numbers.iter().position(|number| *number == pair.to.call)?;
            let sent = part(operation(number, pair.from.op)?);
            let into = part(operation(pair.to.call, pair.to.op)?);
            for part in [sent, into] {
                let found = &plan.buffers.get(part.buffer as usize)?.element;
                if *element.get_or_insert(found) != found || !found.is_moved_by_kernels() {
                    return None;
                }
            }
            let len = sent.len();
            if len != into.len() || len == 0 || sent.count.is_some() {
                return None;
            }
            messages += 1;
            let is_free = |&at: &usize| {
                let (from, to) = (&legs[sender][at], &legs[receiver][at]);
                from.len == len && from.send.is_none() && to.receive.is_none()
            };
            let at = (0..legs[sender].len()).find(is_free).unwrap_or_else(|| {
                legs.iter_mut().for_each(|of| of.push(Leg { len, ..Leg::default() }));
                legs[sender].len() - 1
            });
            legs[sender][at].send = Some(pair.from.op);
            legs[receiver][at].receive = Some(pair.to.op);
        }
    }
    // Each has its other half among these calls.
    let halves: usize = numbers.iter().map(|&number| links.operations(number).len()).sum();
    if halves != 2 * messages {
        return None;
    }
    (legs[0].len() <= MOST_IN_A_KERNEL).then_some((element?.clone(), legs))
}

/// The elements that a message carries, or its destination.
fn part(operation: &Operation) -> Elements {
    match operation {
        Operation::Send { from, .. } => *from,
        Operation::Receive { to, .. } => *to,
        _ => Elements::default(),
    }
}
