//! A7: operations of several communicators have one order on each device.

use std::collections::HashSet;

use super::instance::Instance;
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
                && (theirs != among || among.count_ones() > 1)
            {
                let stream = program.units[earlier as usize % units].stream;
                if !orders.clocks.ended(earlier, stream, unit) {
                    match orders.ended(unit, &HashSet::from([earlier]), budget) {
                        None => return report.too_large("the order of several communicators"),
                        Some(found) if found.is_empty() => {
                            tell(earlier, unit, units as u32, report);
                        }
                        Some(_) => {}
                    }
                }
            }
            before = Some((unit, among));
        }
    }
}

fn tell(first: u32, second: u32, units: u32, report: &mut Report<'_>) {
    let program = report.program;
    let later = if first / units < second / units { "in the next run " } else { "" };
    let (first, second) = (first % units, second % units);
    let rank = program.units[second as usize].rank;
    let streams =
        [first, second].map(|unit| report.stream(program.units[unit as usize].stream).to_owned());
    let story = vec![
        report.unit_line(first, format!("{} on stream `{}`", report.unit_does(first), streams[0])),
        report.unit_line(
            second,
            format!(
                "{later}{} on stream `{}`, in no order with it",
                report.unit_does(second),
                streams[1]
            ),
        ),
    ];
    let title = format!(
        "operations of two communicators have no order on rank {rank}: one rank may begin with the one, \
         another with the other, and both wait"
    );
    let help = format!("put both on one stream, or write `after {}` at the second", streams[0]);
    let help = [
        help.as_str(),
        "or let NCCL take the order of the calls: NCCL_LAUNCH_ORDER_IMPLICIT=1, and `#[order(implicit)]` before the plan",
    ];
    report.tell(Check::CommunicatorOrder, program.at(second as usize), title, story, &help);
}
