//! What a plan says in its own words that memory holds: each claim, written out for each rank.

use std::collections::HashMap;

use super::pieces::Pieces;
use super::run::{Run, reduce};
use super::values::{MOST_TERMS, Values};
use super::watch::Watch;
use crate::check::instance::Instance;
use crate::check::report::Report;
use crate::ir::{Around, Claim, Location, Peer, Reduction, Role, Source, Step, StepKind};
use crate::program::{Budget, Env, NONE, NoSpan, NoValue, Span, Turns};
use crate::verdict::{Check, Line};

/// What a region of a rank should hold.
pub(super) struct Wanted {
    pub(super) at: Location,
    pub(super) rank: u32,
    pub(super) to: Span,
    by: Reduction,
    of: Vec<Of>,
    here: Option<Held>,
}

/// A region of a rank as the run begins; or, with its number among those that are watched, as it
/// is where the claim stands.
struct Of {
    rank: u32,
    span: Span,
    watched: Option<usize>,
}

/// The region of a claim between statements: its number among those that are watched, and the
/// rank's next unit.
struct Held {
    watched: usize,
    unit: u32,
}

/// Why claims are not written out.
pub(super) enum Stop {
    /// They are wrong in themselves, which was reported.
    Reported,
    /// They are too many.
    TooMuch,
}

/// All claims of a plan, and the regions that those between statements are about.
pub(super) fn wanted(
    instance: &Instance<'_>,
    budget: &mut Budget,
    report: &mut Report<'_>,
) -> Result<(Vec<Wanted>, Watch), Stop> {
    let mut written = Written {
        instance,
        budget,
        report,
        counters: Vec::new(),
        all: Vec::new(),
        watch: Watch::default(),
        here: None,
    };
    for claim in &instance.plan.claims {
        for rank in 0..instance.program.ranks() {
            written.counters = vec![None; instance.plan.counters.len()];
            written.claim(claim, rank, &claim.around)?;
        }
    }
    let heres = &instance.program.heres;
    let all = if heres.is_empty() { &[] } else { &*instance.plan.steps };
    let claims: HashMap<u32, &Claim> = (0..).zip(Step::all(all)).filter_map(here).collect();
    for here in heres {
        let Some(claim) = claims.get(&here.statement) else { continue };
        written.here = Some(&here.ranks);
        for (rank, _) in here.ranks.iter().enumerate().filter(|(_, (claims, _))| *claims) {
            written.counters.clone_from(&here.counters);
            written.claim(claim, rank, &claim.around)?;
        }
    }
    Ok((written.all, written.watch))
}

fn here((number, step): (u32, &Step)) -> Option<(u32, &Claim)> {
    let StepKind::Here(claim) = &step.kind else { return None };
    Some((number, claim))
}

impl Wanted {
    /// How many terms its elements have at most.
    pub(super) fn terms(&self) -> usize {
        match self.of.iter().any(|one| one.watched.is_some()) {
            true => MOST_TERMS,
            false => self.of.len(),
        }
    }

    /// The unit before which it should hold it; without one, at the end of the run.
    pub(super) fn before(&self) -> Option<u32> {
        self.here.as_ref().map(|here| here.unit)
    }

    /// What it holds.
    pub(super) fn found(&self, run: &mut Run<'_>, watched: &[Pieces]) -> Pieces {
        match &self.here {
            Some(here) => watched[here.watched].clone(),
            None => run.read(self.rank, self.to),
        }
    }

    /// What it should hold.
    pub(super) fn pieces(&self, watched: &[Pieces], values: &mut Values) -> Pieces {
        let own = Of { rank: self.rank, span: self.to, watched: None };
        let of = if self.of.is_empty() { std::slice::from_ref(&own) } else { &self.of };
        let part = |&Of { rank, span, watched: at }: &Of| match at {
            None => Pieces::one(span.len(), values.term((rank, span.object, span.start))),
            Some(at) => watched[at].clone(),
        };
        let parts: Vec<Pieces> = of.iter().map(part).collect();
        let parts: Vec<&Pieces> = parts.iter().collect();
        reduce(self.by, &parts, 0..self.to.len(), NONE, values)
    }
}

struct Written<'a, 'b, 'r> {
    instance: &'b Instance<'a>,
    budget: &'b mut Budget,
    report: &'b mut Report<'r>,
    counters: Vec<Option<i64>>,
    all: Vec<Wanted>,
    watch: Watch,
    /// For a claim between statements, where the ranks are.
    here: Option<&'b [(bool, u32)]>,
}

impl Written<'_, '_, '_> {
    fn env(&self, rank: usize) -> Env<'_> {
        Env { counters: &self.counters, ..self.instance.env(rank) }
    }

    /// A claim inside these loops and conditions.
    fn claim(&mut self, claim: &Claim, rank: usize, around: &[Around]) -> Result<(), Stop> {
        if let Some((first, inner)) = around.split_first() {
            return self.within(claim, rank, first, |this| this.claim(claim, rank, inner));
        }
        self.spend()?;
        let to = self.instance.program.objects.span(&claim.to, rank, &self.env(rank), None);
        let to = to.map_err(|why| self.no_region(claim, rank, why))?;
        let mut of = Vec::new();
        for source in &claim.of {
            self.source(claim, rank, source, &source.around, &mut of)?;
        }
        if let Some(Of { rank: other, span, .. }) = of.iter().find(|one| one.span.len() != to.len())
        {
            let (own, theirs) = (self.report.name(to), self.report.name(*span));
            let text = format!(
                "says that {own}, of {} elements, is made of {theirs} of rank {other}, of {}",
                to.len(),
                span.len()
            );
            let title = "what the plan says it computes is of two lengths";
            return self.refuse(claim, rank, (Check::Postcondition, title), text);
        }
        let here = match self.here {
            // Without a term it says nothing.
            Some(_) if of.is_empty() => return Ok(()),
            Some(ranks) => {
                let (rank, unit) = (rank as u32, ranks[rank].1);
                Some(Held { watched: self.watch.add(rank, unit, to), unit })
            }
            None => None,
        };
        self.all.push(Wanted { at: claim.at, rank: rank as u32, to, by: claim.by, of, here });
        Ok(())
    }

    fn source(
        &mut self,
        claim: &Claim,
        rank: usize,
        source: &Source,
        around: &[Around],
        of: &mut Vec<Of>,
    ) -> Result<(), Stop> {
        if let Some((first, inner)) = around.split_first() {
            return self
                .within(claim, rank, first, |this| this.source(claim, rank, source, inner, of));
        }
        self.spend()?;
        let peer = self.peer(rank, &source.rank);
        let Some(peer) = peer.map_err(|why| self.no_value(claim, rank, why))? else {
            return Ok(());
        };
        let ranks = self.instance.program.ranks();
        let Some(peer) = u32::try_from(peer).ok().filter(|peer| (*peer as usize) < ranks) else {
            let text = format!("names rank {peer} of {ranks}");
            let title = "what the plan says it computes is made of a rank that does not exist";
            return self.refuse(claim, rank, (Check::Bounds, title), text);
        };
        let objects = &self.instance.program.objects;
        let span = objects.span(&source.region, peer as usize, &self.env(rank), None);
        let span = span.map_err(|why| self.no_region(claim, rank, why))?;
        let begins = !source.region.next
            && matches!(objects.all[span.object as usize].role, Role::In | Role::InOut);
        let here = self.here.filter(|_| !begins);
        let watched = here.map(|ranks| self.watch.add(peer, ranks[peer as usize].1, span));
        of.push(Of { rank: peer, span, watched });
        Ok(())
    }

    /// Runs it for each turn of a loop, or if a condition holds.
    fn within(
        &mut self,
        claim: &Claim,
        rank: usize,
        around: &Around,
        mut inner: impl FnMut(&mut Self) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.spend()?;
        match around {
            Around::When(condition) => {
                let holds = self.env(rank).holds(condition);
                let holds = holds.map_err(|why| self.no_value(claim, rank, why))?;
                if holds { inner(self) } else { Ok(()) }
            }
            Around::Each(each) => {
                let turns = Turns::of_each(each, &self.env(rank));
                let turns = turns.map_err(|why| self.no_value(claim, rank, why))?;
                for value in turns.iter() {
                    self.counters[each.counter.index()] = Some(value);
                    inner(self)?;
                }
                self.counters[each.counter.index()] = None;
                Ok(())
            }
        }
    }

    /// The number of a rank; `None` past the end of an open axis.
    fn peer(&self, rank: usize, peer: &Peer) -> Result<Option<i64>, NoValue> {
        let env = self.env(rank);
        match env.case(peer)? {
            Peer::Rank(number) => env.eval(number).map(Some),
            Peer::Shift(hops) => {
                let there = self.instance.program.layout.hop(rank, hops, &env)?;
                Ok(there.map(|there| there as i64))
            }
            // Cases were resolved above.
            Peer::Cases(_) => Ok(None),
        }
    }

    fn spend(&mut self) -> Result<(), Stop> {
        if self.budget.take(1) { Ok(()) } else { Err(Stop::TooMuch) }
    }

    fn no_region(&mut self, claim: &Claim, rank: usize, why: NoSpan) -> Stop {
        let text = match why {
            NoSpan::NoValue(why) => return self.no_value(claim, rank, why),
            NoSpan::NoBuffers => "names a buffer of an array that has none".to_owned(),
            NoSpan::Index(index) => format!("names buffer {index} of an array"),
            NoSpan::Range(start, end, len, _) => {
                format!("names [{start}, {end}) of {len} elements")
            }
        };
        let title = "a region of what the plan says it computes does not exist";
        self.refuse(claim, rank, (Check::Bounds, title), text).err().unwrap_or(Stop::Reported)
    }

    fn no_value(&mut self, claim: &Claim, rank: usize, why: NoValue) -> Stop {
        let title = "what the plan says it computes has no value";
        let text = format!("finds that {why}");
        self.refuse(claim, rank, (Check::Bounds, title), text).err().unwrap_or(Stop::Reported)
    }

    fn refuse(
        &mut self,
        claim: &Claim,
        rank: usize,
        (check, title): (Check, &str),
        text: String,
    ) -> Result<(), Stop> {
        let counters = self.counters.iter().zip(&self.instance.plan.counters);
        let counters = counters.filter_map(|(value, named)| Some((&named.name, (*value)?)));
        let turn: Vec<String> = counters.map(|(name, value)| format!("{name} = {value}")).collect();
        let turn = if turn.is_empty() { text } else { format!("{text}, for {}", turn.join(", ")) };
        let line = Line::of(rank, claim.at, turn);
        let here = self.here.is_some();
        let title = match here {
            true => title.replace("what the plan says it computes", "what is claimed here"),
            false => title.to_owned(),
        };
        let help = if here { "change the `here` line" } else { "change the `computes` line" };
        self.report.tell(check, claim.at, title, vec![line], &[help]);
        Err(Stop::Reported)
    }
}
