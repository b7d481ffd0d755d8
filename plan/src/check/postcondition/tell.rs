//! The story of an element that is not what it should be: what it is, and who made it so.

use super::values::{Value, Values};
use crate::check::links::{Links, Message};
use crate::check::report::Report;
use crate::ir::Location;
use crate::program::{Kind, Op, OpKind, Span};
use crate::verdict::{Check, Line};

/// An element that is not what it should be.
pub(super) struct Wrong {
    pub(super) rank: u32,
    /// The unit before which it should be so, if that is not the end of the run.
    pub(super) before: Option<u32>,
    /// What the rank would receive, and which element of it is wrong.
    pub(super) recv: Span,
    pub(super) at: u64,
    pub(super) found: Option<Value>,
    pub(super) expected: Option<Value>,
}

pub(super) fn tell(
    wrong: &Wrong,
    kind: Option<Kind>,
    at: Location,
    (links, values): (&Links, &Values),
    report: &mut Report<'_>,
) {
    let &Wrong { rank, recv, ref found, ref expected, .. } = wrong;
    let text = |value: &Option<Value>| match value {
        None => "nothing".to_owned(),
        Some(value) => value.describe(report),
    };
    let what = match kind {
        Some(kind) => format!("what {} would leave there", kind.name()),
        None if wrong.before.is_some() => "what is claimed here".to_owned(),
        None => "what the plan says it computes".to_owned(),
    };
    let title = format!("on rank {rank}, {} does not hold {what}", report.name(recv));
    let line = |text: String| Line::of(rank as usize, at, text);
    let mut story = vec![
        line(format!("has in element {} of it: {}", wrong.at, text(found))),
        line(format!("should have there: {}", text(expected))),
    ];
    let writer = writer(wrong, links, report);
    let culprit = expected.as_ref().and_then(|expected| {
        let astray = values.first_astray(expected)?;
        made(&astray, &astray.describe(report), values, report)
    });
    let help = help(wrong, culprit.as_ref(), writer.as_ref(), kind, report);
    let elsewhere =
        expected.as_ref().and_then(|value| made(value, "what should be there", values, report));
    story.extend(culprit.or(elsewhere));
    // The step that made it may be what writes it.
    let writer = writer.map(|(line, _)| line);
    story.extend(
        writer.filter(|line| story.iter().all(|one| (one.rank, one.at) != (line.rank, line.at))),
    );
    report.tell(Check::Postcondition, at, title, story, &[&help]);
}

/// What would be right.
fn help(
    wrong: &Wrong,
    culprit: Option<&Line>,
    writer: Option<&(Line, bool)>,
    kind: Option<Kind>,
    report: &Report<'_>,
) -> String {
    let claim = if wrong.before.is_some() { "`here`" } else { "`computes`" };
    let unsaid = |value: &Option<Value>| value.as_ref().and_then(Value::unsaid);
    if let (Some(unit), None) = (unsaid(&wrong.found), unsaid(&wrong.expected)) {
        let name = report.unit_does(unit).replace("runs ", "");
        return format!(
            "say what {name} computes, as in `run add(read a, update b) computes b += a;`, or remove the \
             {claim} line of the plan"
        );
    }
    match (&wrong.found, culprit, writer) {
        (Some(Value::Mixed(..)), ..) => format!(
            "one kind of reduction is followed, mixed ones are not: remove the {claim} line"
        ),
        (_, Some(Line { at, .. }), _) => {
            format!(
                "correct what line {} reduces, or what was sent there, or the {claim} line",
                at.line
            )
        }
        (.., Some((Line { at, .. }, true))) => {
            format!("correct the range after `into` in line {}, or the {claim} line", at.line)
        }
        (.., Some((Line { at, .. }, _))) => {
            format!("correct line {}, or the {claim} line", at.line)
        }
        _ if wrong.before.is_some() => {
            "nothing has written it so far: move the `here` line, or correct it".to_owned()
        }
        _ => format!(
            "nothing writes it: let a message or a collective do it, or correct what the plan says it \
             computes{}",
            kind.map_or_else(String::new, |kind| format!(", {}", kind.name()))
        ),
    }
}

/// The step or the collective that made a value.
fn made(value: &Value, text: &str, values: &Values, report: &Report<'_>) -> Option<Line> {
    let program = report.program;
    let at = values.made(value)?;
    let op = program.ops.get(at as usize)?;
    let (does, into) = (report.unit_does(op.unit), report.name(op.target));
    let text = format!("{does}, and has then in its {into} {text}");
    Some(report.line(op, text))
}

/// The last statement that writes an element, and whether its destination is written in the
/// sender's statement.
fn writer(wrong: &Wrong, links: &Links, report: &Report<'_>) -> Option<(Line, bool)> {
    let program = report.program;
    let &Wrong { rank, recv, at, .. } = wrong;
    let element = recv.start + at;
    let covers =
        |span: Span| span.object == recv.object && (span.start..span.end).contains(&element);
    let end = wrong.before.unwrap_or(u32::MAX);
    let is_own = |op: &Op| {
        op.unit < end && op.kind != OpKind::Put && program.rank(op) == rank && covers(op.target)
    };
    if let Some((at, op)) = (0..).zip(&program.ops).filter(|(_, op)| is_own(op)).last() {
        let message = links.messages.iter().find(|message| message.receive == at);
        return Some(match message {
            Some(message) => received(message, report),
            None if op.kind == OpKind::Write => {
                let text = format!("{}, which {}", report.unit_does(op.unit), report.does(op));
                (report.line(op, text), false)
            }
            None => (report.says(op), false),
        });
    }
    let mut puts = links.signals.arrivals.iter().rev();
    let put = puts.find(|put| {
        let op = &program.ops[put.put as usize];
        op.peer == rank && covers(op.target) && put.wait.is_none_or(|(wait, _)| wait < end)
    })?;
    let op = &program.ops[put.put as usize];
    Some((report.says(op), true))
}

/// A message that is received, said of its sender.
fn received(message: &Message, report: &Report<'_>) -> (Line, bool) {
    let program = report.program;
    let (send, receive) = message.ops(program);
    let text = format!(
        "sends its {} to rank {} into {}",
        report.name(send.source),
        program.rank(receive),
        report.name(receive.target)
    );
    // Where the two halves are two statements, the receive says where it writes.
    let is_one = send.statement == receive.statement;
    let at = program.place(receive.statement);
    (Line { at, ..report.line(send, text) }, is_one)
}
