//! Messages: both halves (A1), alike (A2), to oneself within a group (A3), parted alike (A8).

use std::collections::HashMap;

use typed_nccl_plan::verdict::Check;

use crate::far::Far;
use crate::instance::Instance;
use crate::outcome::Outcome;
use crate::unit::{Act, Span, Unit};

/// Half of a message: which unit of its rank, its memory, and how it names the other end.
struct Half {
    unit: usize,
    span: Span,
    far: Option<Far>,
}

#[derive(Default)]
struct Channel {
    sends: Vec<Half>,
    receives: Vec<Half>,
}

pub(crate) fn check(instance: &Instance<'_>, units: &[Vec<Unit>], outcome: &mut Outcome) {
    // By communicator, sender, receiver.
    let mut channels: HashMap<(usize, usize, usize), Channel> = HashMap::new();
    for (rank, units) in units.iter().enumerate() {
        for (number, unit) in units.iter().enumerate() {
            for op in &unit.ops {
                let Some(among) = op.among else { continue };
                match &op.act {
                    Act::Send { from, peer, far } => {
                        let channel = channels.entry((among, rank, *peer)).or_default();
                        let far = far.clone();
                        channel.sends.push(Half { unit: number, span: *from, far });
                    }
                    Act::Receive { to, peer, far } => {
                        let channel = channels.entry((among, *peer, rank)).or_default();
                        let far = far.as_ref().map(Far::back);
                        channel.receives.push(Half { unit: number, span: *to, far });
                    }
                    _ => {}
                }
            }
        }
    }
    // The units of both ends, of the messages between two ranks, in both directions.
    let mut ends: HashMap<(usize, usize, usize), Vec<(usize, usize)>> = HashMap::new();
    for (&(among, sender, receiver), channel) in &channels {
        let (sends, receives) = (&channel.sends, &channel.receives);
        if sends.len() != receives.len() {
            let text = || {
                let (sent, received) = (sends.len(), receives.len());
                format!("{sender} to {receiver}: {sent} sent, {received} received")
            };
            outcome.note(Check::Matching, text);
            if sender == receiver {
                outcome.note(Check::SelfMessages, text);
            }
        }
        for (send, receive) in sends.iter().zip(receives) {
            // Several neighbours can be one rank: then the halves must mean each other.
            if (several(sends) || several(receives))
                && let (Some(there), Some(back)) = (&send.far, &receive.far)
                && there != back
            {
                let text = || format!("{sender} sends {there:?}, {receiver} receives {back:?}");
                outcome.note(Check::Matching, text);
            }
            agree(instance, (sender, receiver), send, receive, outcome);
            if sender == receiver && send.unit != receive.unit {
                outcome.note(Check::SelfMessages, || format!("rank {sender}: in two groups"));
            }
            let of = |rank: usize, unit| {
                let (before, many) = super::collectives::with(&units[rank], unit, among);
                (many > 0).then_some((before, many))
            };
            if of(sender, send.unit) != of(receiver, receive.unit) {
                outcome.note(Check::Groups, || {
                    format!("{sender} to {receiver}: grouped with other collectives at each end")
                });
            }
            let lower = sender.min(receiver);
            let pair =
                if sender == lower { (send.unit, receive.unit) } else { (receive.unit, send.unit) };
            ends.entry((among, lower, sender.max(receiver))).or_default().push(pair);
        }
    }
    for ((_, lower, upper), messages) in ends {
        // Alike: two messages are together here if and only if they are together there.
        let mut there: HashMap<usize, usize> = HashMap::new();
        let mut here: HashMap<usize, usize> = HashMap::new();
        for (a, b) in messages {
            if *there.entry(a).or_insert(b) != b || *here.entry(b).or_insert(a) != a {
                let text = || format!("ranks {lower} and {upper} group their messages differently");
                outcome.note(Check::Groups, text);
            }
        }
    }
}

/// Whether these name the other end by more than one distance.
fn several(halves: &[Half]) -> bool {
    let mut known = halves.iter().filter_map(|half| half.far.as_ref());
    known.next().is_some_and(|first| known.any(|other| other != first))
}

fn agree(
    instance: &Instance<'_>,
    (sender, receiver): (usize, usize),
    send: &Half,
    receive: &Half,
    outcome: &mut Outcome,
) {
    let element = |half: &Half| &instance.plan.buffers[half.span.buffer].element;
    if element(send) != element(receive) || send.span.said != receive.span.said {
        outcome.note(Check::Agreement, || {
            let (sent, received) = (send.span.said, receive.span.said);
            let (a, b) = (element(send), element(receive));
            format!("{sender} to {receiver}: {sent} of {a} sent, {received} of {b} received")
        });
    }
}
