//! A7: operations of several communicators have one order on each device.

use super::instance::Instance;
use super::local::bits;
use super::orders::Orders;
use super::report::Report;
use crate::ir::Order;
use crate::program::Budget;
use crate::verdict::Check;

/// Whether there is something to ask.
pub(crate) fn is_asked(instance: &Instance<'_>) -> bool {
    let program = instance.program;
    instance.plan.order == Order::Declared && program.communicators > 1 && program.streams > 1
}

pub(crate) fn check(
    instance: &Instance<'_>,
    orders: &Orders,
    runs: usize,
    budget: &mut Budget,
    report: &mut Report<'_>,
) {
    let program = instance.program;
    for rank in 0..program.ranks() {
        let mut pairs: Vec<Pair> = Vec::new();
        // Neighbours in the order of issue are enough: order is transitive.
        let mut before: Option<(u32, u64)> = None;
        let units = program.units.len();
        let issued =
            (0..runs).flat_map(|run| program.of_rank(rank).map(move |unit| run * units + unit));
        for unit in issued {
            let of = &program.units[unit % units];
            let among = program.communicators_of(of);
            if among == 0 {
                continue;
            }
            let unit = unit as u32;
            if let Some((earlier, theirs)) = before
                && theirs != among
            {
                let stream = program.units[earlier as usize % units].stream;
                if !orders.clocks.ended(earlier, stream, unit) {
                    match orders.ended(unit, earlier, budget) {
                        None => {
                            tell(&pairs, report);
                            return report.too_large("the order of several communicators");
                        }
                        Some(false) => {
                            let units = units as u32;
                            // More are not told.
                            if pairs.len() == 64 {
                                break;
                            }
                            pairs.push(Pair {
                                first: earlier % units,
                                second: unit % units,
                                later: earlier / units < unit / units,
                            });
                        }
                        Some(true) => {}
                    }
                }
            }
            before = Some((unit, among));
        }
        tell(&pairs, report);
    }
}

/// Two unordered units of one rank, by their numbers in a run, and whether the second belongs to
/// the next run.
#[derive(Clone, Copy)]
struct Pair {
    first: u32,
    second: u32,
    later: bool,
}

/// Tells of two statements once, whichever of them comes first.
fn tell(pairs: &[Pair], report: &mut Report<'_>) {
    let statement = |unit: u32| report.program.units[unit as usize].statement;
    let of = |pair: &Pair| (statement(pair.first), statement(pair.second));
    let mut known: Vec<(Pair, Option<Pair>)> = Vec::new();
    for pair in pairs {
        let (first, second) = of(pair);
        let theirs = known.iter_mut().find(|(other, _)| {
            let other = of(other);
            other == (first, second) || other == (second, first)
        });
        match theirs {
            None => known.push((*pair, None)),
            Some((other, back)) if of(other) != (first, second) => _ = back.get_or_insert(*pair),
            Some(_) => {}
        }
    }
    for (pair, back) in known {
        match back {
            // In the order of one run.
            Some(back) if pair.later && !back.later => tell_pair(back, Some(pair), report),
            back => tell_pair(pair, back, report),
        }
    }
}

fn tell_pair(pair: Pair, back: Option<Pair>, report: &mut Report<'_>) {
    let program = report.program;
    let rank = program.units[pair.second as usize].rank;
    let stream = |unit: u32| report.stream(program.units[unit as usize].stream);
    let line = |unit: u32| program.at(unit as usize).line;
    let second = |pair: Pair, end: &str| {
        let later = if pair.later { "in the next run " } else { "" };
        let does = report.unit_does(pair.second);
        let text = format!("{later}{does} on stream `{}`, {end}", stream(pair.second));
        report.unit_line(pair.second, text)
    };
    let begins = format!("{} on stream `{}`", report.unit_does(pair.first), stream(pair.first));
    let mut story = vec![report.unit_line(pair.first, begins), second(pair, "not ordered with it")];
    story.extend(back.map(|back| second(back, "not ordered with that either")));
    let among = [pair.first, pair.second]
        .map(|unit| program.communicators_of(&program.units[unit as usize]));
    // The one of all ranks has no name, and comes last.
    let among = among[0] | among[1];
    let names: Vec<String> = bits(among & !1)
        .chain(bits(among & 1))
        .map(|communicator| match communicator {
            0 => "what all ranks do together".to_owned(),
            other => report.communicator_name(other as u16),
        })
        .collect();
    let names = match names.as_slice() {
        [some @ .., last] if !some.is_empty() => format!("{} and {last}", some.join(", ")),
        names => names.join(", "),
    };
    let title = format!(
        "on rank {rank} nothing orders {names}: one rank may begin with the one, another with the other, and \
         both wait forever"
    );
    let (earlier, later) = (stream(pair.first), stream(pair.second));
    let after = |pair: Pair| {
        let (first, second) = (stream(pair.first), stream(pair.second));
        format!("`on {second} after {first}` in line {}", line(pair.second))
    };
    let orders = match back {
        Some(back) => {
            format!("or order them in this run and the next: {} and {}", after(pair), after(back))
        }
        None => format!("or order them: {}", after(pair)),
    };
    let one = format!(
        "run both on one stream: `on {earlier}` in line {} instead of `on {later}`",
        line(pair.second)
    );
    let help = [
        one.as_str(),
        orders.as_str(),
        "or let NCCL take the order of the calls: set NCCL_LAUNCH_ORDER_IMPLICIT=1, and declare \
         `#[order(implicit)]`",
    ];
    report.tell(Check::CommunicatorOrder, program.at(pair.second as usize), title, story, &help);
}
