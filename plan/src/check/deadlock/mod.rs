//! A5 and A6: nobody waits in a circle.

mod turned;

use super::graph::{Graph, end, start};
use super::instance::Instance;
use super::links::Links;
use super::local::{Local, Reason, reason};
use super::report::Report;
use crate::ir::CollectiveName;
use crate::program::{NONE, OpKind, Program};
use crate::verdict::{Check, Line};

pub(crate) fn check(instance: &Instance<'_>, links: &Links, report: &mut Report<'_>) {
    let program = instance.program;
    let local = Local::new(program, 1);
    let graph = blocks(program, links, &local, false);
    let sorted = graph.sorted();
    if sorted.len() < graph.nodes() {
        return tell(program, links, &graph.circuit(&sorted), Check::Deadlock, report);
    }
    if !links.signals.credits.is_empty() {
        let graph = blocks(program, links, &local, true);
        let sorted = graph.sorted();
        if sorted.len() < graph.nodes() {
            tell(program, links, &graph.circuit(&sorted), Check::CapturedCredit, report);
        }
    }
}

/// What may have to wait for what, in one run.
pub(super) fn blocks(program: &Program, links: &Links, local: &Local, with_credit: bool) -> Graph {
    let units = program.units.len() as u32;
    Graph::new(2 * units as usize + links.collectives.len(), |edge| {
        local.edges(edge);
        for message in &links.messages {
            if message.send_unit != message.receive_unit {
                edge(start(message.send_unit), end(message.receive_unit));
                edge(start(message.receive_unit), end(message.send_unit));
            }
        }
        for (hub, meeting) in (2 * units..).zip(&links.collectives) {
            for &(unit, _) in &meeting.members {
                edge(start(unit), hub);
                edge(hub, end(unit));
            }
        }
        for raised in &links.signals.raised {
            edge(start(raised.raise_unit), end(raised.wait_unit));
        }
        if with_credit {
            for &(wait, raise) in &links.signals.credits {
                edge(end(wait), end(raise));
            }
        }
    })
}

/// What a circle of waiting consists of.
#[derive(Default)]
struct Kinds {
    messages: bool,
    waits: bool,
    /// A rank that has come to a collective, the collective's name, and the lines of what the missing rank
    /// does first and of its own call.
    collective: Option<(u32, CollectiveName, Option<(u32, u32)>)>,
}

/// The story of a circuit: its units in order, each with what it waits for.
fn tell(program: &Program, links: &Links, circuit: &[u32], check: Check, report: &mut Report<'_>) {
    let units = 2 * program.units.len() as u32;
    // Against the edges: from what waits to what it waits for.
    let mut nodes: Vec<u32> = circuit.iter().rev().copied().collect();
    // Begin where a rank waits for another.
    let crosses = |from: u32, to: u32| {
        from >= units
            || to >= units
            || program.units[(from / 2) as usize].rank != program.units[(to / 2) as usize].rank
    };
    let len = nodes.len();
    if let Some(first) = (0..len).find(|&at| {
        nodes[at] < units && nodes[at] % 2 == 1 && crosses(nodes[at], nodes[(at + 1) % len])
    }) {
        nodes.rotate_left(first);
    }
    report.without_ranges = check == Check::CapturedCredit;
    let mut story = Vec::new();
    let mut ranks = Vec::new();
    let mut kinds = Kinds::default();
    let mut blocked = Vec::new();
    let at = |index: usize| nodes[index % len];
    for index in 0..len {
        let node = at(index);
        if node >= units {
            continue;
        }
        let unit = node / 2;
        let rank = program.units[unit as usize].rank;
        let next = at(index + 1);
        if node % 2 == 1 && next >= units {
            // Through a collective, to a member that has not come.
            let meeting = &links.collectives[(next - units) as usize];
            let missing = at(index + 2) / 2;
            let other = program.units[missing as usize].rank;
            let own = meeting.members.iter().find(|(member, _)| *member == unit);
            let does =
                own.map_or_else(String::new, |(_, op)| report.does(&program.ops[*op as usize]));
            story.push(Line {
                rank: Some(rank as usize),
                other: Some(other as usize),
                at: program.at(unit as usize),
                text: format!("{does}, which needs rank {other}"),
            });
            ranks.push(rank);
            kinds.collective.get_or_insert_with(|| (rank, meeting.kind.name(), None));
            // What the other does first, before it comes.
            let first = at(index + 3);
            if let Some((.., lines)) = &mut kinds.collective
                && lines.is_none()
                && first < units
                && first / 2 != missing
            {
                let line = |unit: u32| program.at(unit as usize).line;
                *lines = Some((line(first / 2), line(missing)));
            }
        } else if node % 2 == 1 && next / 2 != unit {
            let other_unit = next / 2;
            let other = program.units[other_unit as usize].rank;
            let text = waits(program, unit, other_unit, report);
            let ops = program.ops_of(&program.units[unit as usize]);
            kinds.waits |= ops.iter().any(|op| op.kind == OpKind::Wait);
            kinds.messages |=
                ops.iter().any(|op| matches!(op.kind, OpKind::Send | OpKind::Receive));
            story.push(Line {
                rank: Some(rank as usize),
                other: Some(other as usize),
                at: program.at(unit as usize),
                text,
            });
            ranks.push(rank);
        } else if node % 2 == 0 && next / 2 != unit {
            let earlier = next / 2;
            blocked.push((earlier, unit));
            let why = match reason(program, earlier, unit) {
                Some(Reason::Stream(_)) if program.streams == 1 => {
                    "the plan has one stream".to_owned()
                }
                Some(Reason::Stream(stream)) => {
                    format!("on stream `{}`", report.stream(stream))
                }
                Some(Reason::Communicator(0)) => {
                    "what goes among all ranks runs in order".to_owned()
                }
                Some(Reason::Communicator(among)) => format!(
                    "operations of one communicator, {}, run in order",
                    report.communicator_name(among)
                ),
                Some(Reason::After(stream)) => {
                    format!("it is `after` stream `{}`", report.stream(stream))
                }
                Some(Reason::Memory(object)) => {
                    format!("both use {}", report.object_name(object))
                }
                Some(Reason::Signals) => "it uses a window after a wait for signals".to_owned(),
                None => "it is issued later".to_owned(),
            };
            story.push(Line {
                rank: Some(rank as usize),
                other: None,
                at: program.at(unit as usize),
                text: format!(
                    "{} only after {} ({why})",
                    report.unit_does(unit),
                    place(program, earlier)
                ),
            });
        }
    }
    ranks.sort_unstable();
    ranks.dedup();
    let who = match ranks[..] {
        [one] => format!("rank {one} waits for itself"),
        [a, b] => format!("rank {a} and rank {b} wait for each other"),
        [a, b, c] => format!("ranks {a}, {b} and {c} wait in a circle"),
        _ => format!("{} ranks wait for one another in a circle", ranks.len()),
    };
    let title = match check {
        Check::CapturedCredit => format!(
            "captured, {who}: below NCCL 2.32 a captured signal waits until the one before it was consumed"
        ),
        _ => who,
    };
    let help = match (check, kinds) {
        (Check::CapturedCredit, _) => vec![
            "wait for each signal right after its put".to_owned(),
            "or remove `#[capture]`, so that it is launched call by call".to_owned(),
            "or write `#[target(2, 32, 0)]`, if it runs on NCCL 2.32 or later".to_owned(),
        ],
        (_, Kinds { collective: Some((rank, name, lines)), .. }) => {
            vec![match lines {
                Some((first, second)) if first != second => format!(
                    "exchange lines {first} and {second}, in one order on all ranks: rank {rank} begins with \
                     the {name}"
                ),
                _ => format!(
                    "run them in one order on all ranks: rank {rank} begins with the {name}"
                ),
            }]
        }
        (_, Kinds { waits: true, .. }) => vec![
            "change the order: wait after the `put` or `signal` that the other rank waits for"
                .to_owned(),
        ],
        (_, Kinds { messages: true, .. }) => turned::mends(program, &blocked),
        _ => vec!["change the order of the statements so that one of them can go first".to_owned()],
    };
    let help: Vec<&str> = help.iter().map(String::as_str).collect();
    report.without_ranges = false;
    let place = story.first().map_or_else(Default::default, |line| line.at);
    story.truncate(24);
    report.tell(check, place, title, story, &help);
}

fn place(program: &Program, unit: u32) -> String {
    let at = program.at(unit as usize);
    format!("line {}", at.line)
}

/// What a unit waits for at another rank.
fn waits(program: &Program, unit: u32, other: u32, report: &Report<'_>) -> String {
    let (of, theirs) = (&program.units[unit as usize], &program.units[other as usize]);
    let towards = program
        .ops_of(of)
        .iter()
        .find(|op| op.peer == theirs.rank && op.peer != NONE && op.kind != OpKind::Put);
    let does = towards.map_or_else(|| report.unit_does(unit), |op| report.does(op));
    let line = program.at(other as usize).line;
    match towards.map(|op| op.kind) {
        Some(OpKind::Send) => {
            format!("{does} and waits until rank {} receives (line {line})", theirs.rank)
        }
        Some(OpKind::Receive) => {
            format!("{does} and waits until rank {} sends (line {line})", theirs.rank)
        }
        Some(OpKind::Wait) => format!("{does}, which rank {} raises in line {line}", theirs.rank),
        _ => format!("{does} and waits for rank {} (line {line})", theirs.rank),
    }
}
