//! Validates claims about memory, and the sources of assignments.

use super::Found;
use crate::ir::{Around, Claim, Location, MOST_NESTING, Reduction, Region, Role, Source};

impl Found<'_> {
    /// A claim about the result, or about memory where it stands.
    pub(super) fn claim(&mut self, claim: &Claim, here: bool) {
        let at = claim.at;
        let outside = self.scope.len();
        self.around(&claim.around, at);
        self.region(&claim.to, "what the plan computes", false, at);
        for source in &claim.of {
            self.of_rank(source, "what it is made of", at);
            self.source(claim, &source.region, here);
        }
        self.scope.truncate(outside);
        if claim.of.is_empty() {
            self.say(at, "what the plan computes is made of nothing", "name a region of a rank");
        }
    }

    /// A source of an assignment.
    pub(super) fn assigned(&mut self, source: &Source, at: Location) {
        self.of_rank(source, "what is read", at);
    }

    /// A region of a rank, inside its loops and conditions.
    fn of_rank(&mut self, source: &Source, what: &str, at: Location) {
        let inside = self.scope.len();
        if source.around.len() > MOST_NESTING {
            return self.say(at, "a source stands in more than 64 loops", "use fewer");
        }
        self.around(&source.around, at);
        self.region(&source.region, what, false, at);
        self.peer(&source.rank, 0, at);
        self.scope.truncate(inside);
    }

    fn around(&mut self, around: &[Around], at: Location) {
        for one in around {
            match one {
                Around::When(condition) => self.condition(condition, "a condition", true, at),
                Around::Each(each) => {
                    self.number(&each.from, "the first value of a loop", at);
                    self.number(&each.to, "the end of a loop", at);
                    let powers = each.powers.iter();
                    powers.for_each(|base| self.even(base, "the base of a loop's powers", at));
                    let counters = self.plan.counters.len();
                    if self.in_range(each.counter.index(), counters, "a loop", "counter", at) {
                        self.scope.push(each.counter);
                    }
                }
            }
        }
    }

    /// A source is of the type of what it makes; for a claim about the result, the caller fills it.
    fn source(&mut self, claim: &Claim, source: &Region, here: bool) {
        let at = claim.at;
        let buffer = |region: &Region| self.plan.buffers.get(region.buffer.index());
        let (Some(to), Some(of)) = (buffer(&claim.to), buffer(source)) else { return };
        let (element, name) = (&to.element, &of.name);
        if of.element != *element {
            let title = format!(
                "what the plan computes is of two types: `{}` holds {element}, and `{name}` {}",
                to.name, of.element
            );
            self.say(at, title, "name regions of one type");
        } else if claim.by == Reduction::Avg && !element.averages() {
            let title = format!("`{name}` holds {element}, which has no average");
            self.say(at, title, "claim a sum");
        } else if !here && (source.next || matches!(of.role, Role::Out | Role::Local)) {
            let title = format!("a run does not begin with anything in `{name}`");
            let help = "what a plan computes is made of what the caller fills, `in` and `inout`";
            self.say(at, title, help);
        }
    }
}
