//! A5 and A6: nobody waits in a circle.

mod circle;
mod turned;

use typed_nccl_match::Graph;

use super::instance::Instance;
use super::links::Links;
use super::local::{Local, end, start};
use super::report::Report;
use crate::program::Program;
use crate::releases::CAPTURED_SIGNALS_PILE_UP;
use crate::verdict::Check;
use circle::{Circle, Collective};

pub(crate) fn check(instance: &Instance<'_>, links: &Links, report: &mut Report<'_>) {
    let program = instance.program;
    let local = Local::new(program, 1);
    let has_credits = !links.signals.credits.is_empty();
    for check in
        [Check::Deadlock, Check::CapturedCredit].into_iter().take(1 + usize::from(has_credits))
    {
        let circuit = blocks(program, links, &local, check == Check::CapturedCredit).circuit();
        if !circuit.is_empty() {
            return tell(program, links, &circuit, check, report);
        }
    }
}

/// What may have to wait for what, in one run.
pub(super) fn blocks(program: &Program, links: &Links, local: &Local, with_credit: bool) -> Graph {
    let units = program.units.len() as u32;
    let unit = |op: u32| program.ops[op as usize].unit;
    Graph::new(2 * units as usize + links.collectives.len(), |edge| {
        local.edges(edge);
        for message in &links.messages {
            let (send, receive) = (unit(message.send), unit(message.receive));
            if send != receive {
                edge(start(send), end(receive));
                edge(start(receive), end(send));
            }
        }
        for (hub, meeting) in (2 * units..).zip(&links.collectives) {
            for &member in &meeting.members {
                edge(start(unit(member)), hub);
                edge(hub, end(unit(member)));
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

/// The story of a circuit: its units in order, each with what it waits for.
fn tell(program: &Program, links: &Links, circuit: &[u32], check: Check, report: &mut Report<'_>) {
    report.without_ranges = check == Check::CapturedCredit;
    let mut circle = Circle::new(links, circuit, report);
    circle.ranks.sort_unstable();
    circle.ranks.dedup();
    let who = match circle.ranks[..] {
        [one] => format!("rank {one} waits for itself"),
        [a, b] => format!("rank {a} and rank {b} wait for each other"),
        [a, b, c] => format!("ranks {a}, {b} and {c} wait in a circle"),
        _ => format!("{} ranks wait for one another in a circle", circle.ranks.len()),
    };
    let title = match check {
        Check::CapturedCredit => format!(
            "captured, {who}: below NCCL {} a captured signal waits until the one before it was consumed",
            CAPTURED_SIGNALS_PILE_UP.release()
        ),
        _ => who,
    };
    let help = help(program, &circle, check);
    let mut story = circle.story;
    report.without_ranges = false;
    let place = story.first().map_or_else(Default::default, |line| line.at);
    story.truncate(24);
    report.tell(check, place, title, story, &help);
}

fn help(program: &Program, circle: &Circle<'_>, check: Check) -> Vec<String> {
    if check == Check::CapturedCredit {
        return vec![
            "wait for each signal right after its put".to_owned(),
            "or remove `#[capture]`, so that it is launched call by call".to_owned(),
            format!(
                "or write `{}`, if it runs on NCCL {} or later",
                CAPTURED_SIGNALS_PILE_UP.target(),
                CAPTURED_SIGNALS_PILE_UP.release()
            ),
        ];
    }
    if let Some(Collective { rank, name, lines }) = circle.collective {
        let first = match lines {
            Some((a, b)) if a != b => {
                format!("exchange lines {a} and {b}, in one order on all ranks")
            }
            _ => "run them in one order on all ranks".to_owned(),
        };
        return vec![format!("{first}: rank {rank} begins with the {name}")];
    }
    if circle.waits {
        let order =
            "change the order: wait after the `put` or `signal` that the other rank waits for";
        return vec![order.to_owned()];
    }
    if circle.messages {
        return turned::help(program, &circle.blocked);
    }
    vec!["change the order of the statements so that one of them can go first".to_owned()]
}
