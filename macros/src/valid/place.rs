//! On which stream a statement runs, and after which others.

use typed_nccl_plan::ir::{self, StreamId};

use super::{Looked, Resolver};
use crate::area::Area;
use crate::ast;
use crate::fault::Fault;

/// What the blocks around a statement say of its place.
#[derive(Clone, Debug, Default)]
pub(super) struct Around {
    on: Option<StreamId>,
    after: Vec<StreamId>,
}

impl Resolver<'_> {
    /// The place of the statements in an `on` block.
    pub(super) fn within(&mut self, place: &ast::Place, around: &Around) -> Looked<Around> {
        let mut inner = around.clone();
        if let Some(on) = &place.on {
            inner.on = Some(self.stream(on)?);
        }
        for after in &place.after {
            let after = self.stream(after)?;
            if !inner.after.contains(&after) {
                inner.after.push(after);
            }
        }
        Ok(inner)
    }

    /// Where a statement runs: as it says, else as the blocks around it do.
    pub(super) fn place(
        &mut self,
        place: &ast::Place,
        around: &Around,
        area: Area,
    ) -> Looked<ir::Place> {
        let Around { on, after } = self.within(place, around)?;
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
