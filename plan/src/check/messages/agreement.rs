//! Both halves of a message are of one type and one length, and those to oneself are in one group.

use super::super::links::Message;
use super::super::report::Report;
use super::super::units::difference;
use crate::ir::{Step, StepKind};
use crate::program::{Op, Program};
use crate::verdict::Check;

pub(super) fn check(program: &Program, message: &Message, report: &mut Report<'_>) {
    let (send, receive) = message.ops(program);
    let elements = (
        program.objects.element(send.source.object),
        program.objects.element(receive.target.object),
    );
    let lens = (send.source.len(), receive.target.len());
    if elements.0 == elements.1 && lens.0 == lens.1 {
        if send.count != receive.count {
            two_counts(program, (send, receive), report);
        } else if program.rank(send) == program.rank(receive) && send.unit != receive.unit {
            to_oneself(program, message, report);
        }
        return;
    }
    let what = |element: &crate::ir::ElementType, len| format!("{len} {element}");
    let story = vec![
        report.line(send, format!("{}: {}", report.does(send), what(elements.0, lens.0))),
        report.line(receive, format!("{}: {}", report.does(receive), what(elements.1, lens.1))),
    ];
    let (differ, alike) = difference(elements, lens);
    let title = format!(
        "{} and {} of one message differ: {differ}",
        report.region(send).unwrap_or_else(|| report.name(send.source)),
        report.region(receive).unwrap_or_else(|| report.name(receive.target)),
    );
    let mut help = vec![format!("make both halves {alike}")];
    if elements.0 == elements.1 && lens.0.min(lens.1) == 0 {
        help.splice(0..0, report.even(send.source.object));
    }
    report.tell(Check::Agreement, program.place(send.statement), title, story, &help);
}

/// What a run passes for one number need not be what it passes for another.
fn two_counts(program: &Program, (send, receive): (&Op, &Op), report: &mut Report<'_>) {
    let story = vec![
        report.line(send, format!("{}: {}", report.does(send), number(send.count, report))),
        report
            .line(receive, format!("{}: {}", report.does(receive), number(receive.count, report))),
    ];
    let title = format!(
        "{} and {} of one message are as long as two numbers, one of which runs pass",
        report.region(send).unwrap_or_else(|| report.name(send.source)),
        report.region(receive).unwrap_or_else(|| report.name(receive.target)),
    );
    let help = ["give both halves the same number of one list"];
    report.tell(Check::Agreement, program.place(send.statement), title, story, &help);
}

/// A number that runs pass, by its place among all of them: `counts[3]`.
fn number(mut place: u32, report: &Report<'_>) -> String {
    let plan = report.plan();
    for id in &plan.counts {
        let len = report.sizes().params[id.index()].len() as u32;
        if place < len {
            return format!("`{}[{place}]`", plan.params[id.index()].name);
        }
        place = place.saturating_sub(len);
    }
    "the same in every run".to_owned()
}

/// A3: what a rank sends to itself waits for its receive.
fn to_oneself(program: &Program, message: &Message, report: &mut Report<'_>) {
    let (send, receive) = message.ops(program);
    let of = |op: &Op| &program.units[op.unit as usize];
    let (sends, receives) = (of(send), of(receive));
    let when = if send.unit < receive.unit { "later" } else { "earlier" };
    let story =
        vec![report.says(send), report.line(receive, format!("{when} {}", report.does(receive)))];
    let is_group = |statement: u32| {
        let step = Step::nth(&report.plan().steps, statement);
        step.is_some_and(|step| matches!(step.kind, StepKind::Group(_)))
    };
    let title = if is_group(sends.statement) || is_group(receives.statement) {
        "a rank sends to itself, and receives in another group".to_owned()
    } else {
        let article = if when == "later" { "a" } else { "an" };
        format!("a rank sends to itself, and receives in {article} {when} statement")
    };
    let help = ["put both halves in one group: alone, the first waits for the second"];
    let at = program.place(send.statement);
    report.tell(Check::SelfMessages, at, title, story, &help);
}
