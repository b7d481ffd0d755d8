//! Assignments: `x += y`, `x = max(x, y)`, `x = y`.

use typed_nccl_plan::ir::{
    Assign, Operator as Arithmetic, Place, Reduction, Region, Source, StepKind,
};

use super::scope::Meaning;
use super::{Looked, Resolver};
use crate::area::Area;
use crate::ast::{Assigned, Expr, ExprKind, Term, text};
use crate::fault::Fault;

/// The help for a right side that is not this.
pub(super) const PARTS: &str =
    "it is memory, or a sum, a product, `min`, `max` or `avg` of memory alone: `x = y + z`";

impl Resolver<'_> {
    pub(super) fn assign(
        &mut self,
        to: &Expr,
        update: Option<Arithmetic>,
        value: &Assigned,
        area: Area,
        place: Looked<Place>,
    ) -> Looked<StepKind> {
        let to = self.region(to);
        let mut by = update;
        let mut parts = Vec::new();
        let whole = match value {
            Assigned::Reduced(value) => {
                self.parts(value, &mut by, &mut parts, PARTS)?;
                value.area
            }
            Assigned::Average(list, area) => {
                parts.extend(list);
                *area
            }
            Assigned::OfRanks { by: Some(by), terms, area, .. } if terms.iter().all(is_own) => {
                let fault = Fault::new(*area, format!("an assignment has no `{by}(..)`"));
                return self.tell(fault.help("write `x = y + z` or `x = y * z`"));
            }
            Assigned::OfRanks { .. } => {
                let (to, made) = (to, self.of_ranks(area, update, value));
                let (to, (by, mut of)) = (to?, made?);
                of.splice(0..0, update.map(|_| Source::own(to.clone())));
                self.reduces_sources(&to, by, &of, area)?;
                return Ok(StepKind::Assign(Assign { to, by, of, place: place? }));
            }
        };
        let of: Vec<_> = parts.into_iter().map(|part| self.assigned(part)).collect();
        let (to, of) = (to?, of.into_iter().collect::<Looked<Vec<_>>>()?);
        let of: Vec<_> = update.iter().map(|_| to.clone()).chain(of).collect();
        let by = match (value, by) {
            (Assigned::Average(..), _) => Reduction::Avg,
            (_, by) => reduction(by),
        };
        if of.len() > 1 {
            let element = self.buffer(to.buffer).element.clone();
            let by_area = if update.is_some() { area } else { whole };
            self.reduces(&element, by == Reduction::Avg, by_area)?;
        }
        let of = of.into_iter().map(Source::own).collect();
        Ok(StepKind::Assign(Assign { to, by, of, place: place? }))
    }

    fn assigned(&mut self, part: &Expr) -> Looked<Region> {
        if let ExprKind::Int(_) | ExprKind::Negated(_) = part.kind {
            let fault = Fault::new(part.area, "an assignment is of memory, and this is a number");
            return self
                .tell(fault.help("fill memory in a step of your own: `run fill(write x);`"));
        }
        self.region(part)
    }

    /// Checks that the type of what sources make has their reduction, if they are several.
    pub(super) fn reduces_sources(
        &mut self,
        to: &Region,
        by: Reduction,
        of: &[Source],
        area: Area,
    ) -> Looked<()> {
        if of.len() < 2 && of.iter().all(|source| source.around.is_empty()) {
            return Ok(());
        }
        let element = self.buffer(to.buffer).element.clone();
        self.reduces(&element, by == Reduction::Avg, area)
    }

    /// Reports a name that was meant to be declared with `let`.
    pub(super) fn names_memory(&mut self, to: &Expr, update: Option<Arithmetic>) -> Looked<()> {
        let ExprKind::Name(name) = &to.kind else { return Ok(()) };
        if update.is_some() || self.scope.is_declared(&text(name)) {
            return Ok(());
        }
        self.declare_here(name, Meaning::Broken);
        let fault = Fault::new(name.span(), format!("no statement begins with `{name}`"));
        self.tell(fault.help(format!("a name is given with `let`: `let {name} = ..;`")))
    }
}

fn is_own(term: &Term) -> bool {
    matches!(term, Term::Memory { of: None, .. })
}

/// The reduction by an operator; one region alone is copied.
pub(super) fn reduction(by: Option<Arithmetic>) -> Reduction {
    match by {
        None | Some(Arithmetic::Add) => Reduction::Sum,
        Some(Arithmetic::Mul) => Reduction::Prod,
        Some(Arithmetic::Min) => Reduction::Min,
        Some(_) => Reduction::Max,
    }
}
