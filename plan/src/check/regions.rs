//! Regions of declarations, at an instance.

use crate::ir::Region;
use crate::program::{Env, Program, Span};

/// The elements that a region is, if it exists.
pub(crate) fn span(program: &Program, env: &Env<'_>, region: &Region) -> Option<Span> {
    let index = region.index.as_ref().map_or(Ok(0), |index| env.eval(index)).ok()?;
    let index = u32::try_from(index).ok()?;
    if index >= program.objects.count(region.buffer) {
        return None;
    }
    let object = program.objects.find(region.buffer, index, region.next);
    let len = program.objects.all[object as usize].len;
    match &region.range {
        None => Some(Span { object, start: 0, end: len }),
        Some((start, end)) => match (env.eval(start), env.eval(end)) {
            (Ok(start), Ok(end)) if 0 <= start && start <= end && end as u64 <= len => {
                Some(Span { object, start: start as u64, end: end as u64 })
            }
            _ => None,
        },
    }
}
