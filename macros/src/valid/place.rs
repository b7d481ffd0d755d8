//! The stream of a statement, and the streams that it runs after.

use typed_nccl_plan::ir::{self, StreamId};

use super::{Looked, Reported, Resolver};
use crate::area::Area;
use crate::ast;
use crate::fault::Fault;

/// The place that enclosing blocks give a statement.
#[derive(Clone, Debug, Default)]
pub(super) struct Around {
    on: Option<StreamId>,
    after: Vec<StreamId>,
    /// Their place could not be parsed, which was reported.
    unknown: bool,
}

impl Around {
    pub(super) fn unknown(mut self) -> Self {
        self.unknown = true;
        self
    }
}

impl Resolver<'_> {
    /// The place of the statements in an `on` block.
    pub(super) fn within(&mut self, place: &ast::StreamClause, around: &Around) -> Around {
        let mut inner = around.clone();
        if place.unknown {
            return inner.unknown();
        }
        if let Some(on) = &place.on {
            inner.on = self.stream(on).ok();
            inner.unknown |= inner.on.is_none();
        }
        for after in &place.after {
            match self.stream(after) {
                Ok(after) if inner.after.contains(&after) => {}
                Ok(after) => inner.after.push(after),
                Err(Reported) => inner.unknown = true,
            }
        }
        inner
    }

    /// The place of a statement: its own, else that of the enclosing blocks.
    pub(super) fn place(
        &mut self,
        place: &ast::StreamClause,
        around: &Around,
        area: Area,
    ) -> Looked<ir::Place> {
        let Around { on, after, unknown } = self.within(place, around);
        if unknown {
            return Err(Reported);
        }
        let streams = &self.valid.plan.streams;
        let on = match on {
            Some(on) => on,
            None if streams.len() == 1 => StreamId(0),
            None => {
                let names: Vec<&str> = streams.iter().map(|stream| &*stream.name).collect();
                let title = format!(
                    "the plan has {} streams, and this does not say on which it runs",
                    names.len()
                );
                let help = format!("add `on` with one of `{}`", names.join("`, `"));
                return self.tell(Fault::new(area, title).help(help));
            }
        };
        Ok(ir::Place { on, after })
    }
}
