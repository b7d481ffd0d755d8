//! Messages that most ranks do not send, as the chain ends before their receivers.
//!
//! A constant distance, such as to `rank + 1`, ends at the border: that is what it is for. A
//! distance that is computed, such as `rank + n - 1`, may miss nearly all ranks.

use super::super::instance::Instance;
use crate::ir::{Expr, Hop, Location, Peer, Plan, Step, StepKind};
use crate::verdict::{Problem, ProblemKind, Sizes};

/// The statements that send.
pub(super) struct Ends(Vec<Send>);

struct Send {
    statement: usize,
    peer: String,
    at: Location,
    is_constant: bool,
    /// Whether any rank sent at any size.
    is_sent: bool,
    /// The first size at which some do not.
    missed: Option<Sizes>,
    /// The first size at which most do not.
    mostly_missed: Option<Sizes>,
}

impl Ends {
    pub(super) fn new(plan: &Plan) -> Self {
        let send = |(statement, step): (usize, &Step)| {
            let is_receive = matches!(step.kind, StepKind::Receive(_));
            let peer = step.kind.communication().filter(|_| !is_receive)?.peer?;
            Some(Send {
                statement,
                peer: plan.show(peer),
                at: step.at,
                is_constant: is_constant(peer),
                is_sent: false,
                missed: None,
                mostly_missed: None,
            })
        };
        Self(Step::all(&plan.steps).enumerate().filter_map(send).collect())
    }

    pub(super) fn look(&mut self, instance: &Instance<'_>) {
        for send in &mut self.0 {
            let (there, off) = instance.program.off_the_end[send.statement];
            send.is_sent |= there > 0;
            if off > 0 && send.missed.is_none() {
                send.missed = Some(instance.sizes.clone());
            }
            let is_more = off > there && instance.program.ranks() > 2 && !send.is_constant;
            if is_more && send.mostly_missed.is_none() {
                send.mostly_missed = Some(instance.sizes.clone());
            }
        }
    }

    pub(super) fn finish(self) -> impl Iterator<Item = Problem> {
        self.0.into_iter().filter_map(|send| {
            let Send { peer, at, .. } = send;
            let (title, sizes) = match (send.is_sent, send.missed, send.mostly_missed) {
                (false, Some(sizes), _) => {
                    (format!("nobody ever sends this: `{peer}` is no rank anywhere"), sizes)
                }
                (_, _, Some(sizes)) => {
                    (format!("most ranks send nothing here: on them `{peer}` is no rank"), sizes)
                }
                _ => return None,
            };
            let help = "around a ring, write the distance `% n`; in a chain, correct it, or guard \
                        the statement with the condition that it is meant for";
            let problem = Problem::new(ProblemKind::Doubtful, title, at, help);
            Some(Problem { sizes: Some(sizes), ..problem })
        })
    }
}

fn is_constant(peer: &Peer) -> bool {
    match peer {
        Peer::Shift(hops) => hops.iter().all(|Hop { by, .. }| matches!(by, Expr::Int(_))),
        Peer::Rank(_) => true,
        Peer::Cases(cases) => is_constant(&cases.then) && is_constant(&cases.otherwise),
    }
}
