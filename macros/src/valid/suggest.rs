//! Suggestions for names that are undeclared or of the wrong kind.

use super::Resolver;
use super::scope::Want;

impl Resolver<'_> {
    /// Built-in names of this kind.
    pub(super) fn own_words(&self, want: Want) -> &'static [&'static str] {
        match want {
            Want::Number | Want::Peer if self.scope.same => &["size"],
            Want::Number | Want::Peer => &["rank", "size"],
            _ => &[],
        }
    }

    /// A step to another rank, in the syntax for this plan.
    pub(super) fn a_step(&self) -> String {
        match &*self.valid.plan.axes {
            [] => "(rank + 1) % n".to_owned(),
            [only] => format!("(rank + 1) % {}", only.name),
            [first, ..] => format!("(rank.{0} + 1) % {0}", first.name),
        }
    }

    /// The declared names of this kind.
    pub(super) fn these(&self, want: Want) -> Option<String> {
        let own = (want == Want::Number && !self.scope.same).then_some("rank");
        let names: Vec<&str> = match want {
            // Among numbers, prefer those that were declared as a rank.
            Want::Peer => self.scope.peers().collect(),
            _ => own.into_iter().chain(self.scope.fitting(want)).collect(),
        };
        match &*names {
            [] => None,
            names if names.len() > 8 => None,
            [one] => Some(format!("use `{one}`")),
            names => Some(format!("use one of `{}`", names.join("`, `"))),
        }
    }
}
