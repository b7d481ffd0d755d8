//! What a plan says in its own words that memory holds: each claim, written out for each rank.

use super::pieces::Pieces;
use super::run::reduce;
use super::values::Values;
use crate::check::instance::Instance;
use crate::check::report::Report;
use crate::ir::{Around, Claim, Location, Peer, Reduction, Source};
use crate::program::{Budget, Env, NONE, NoSpan, NoValue, Span, Turns};
use crate::verdict::{Check, Line};

/// What a region of a rank should hold.
pub(super) struct Wanted {
    pub(super) at: Location,
    pub(super) rank: u32,
    pub(super) to: Span,
    by: Reduction,
    of: Vec<(u32, Span)>,
}

/// Why claims are not written out.
pub(super) enum Stop {
    /// They are wrong in themselves, which was reported.
    Reported,
    /// They are too many.
    TooMuch,
}

/// All claims of a plan.
pub(super) fn wanted(
    instance: &Instance<'_>,
    budget: &mut Budget,
    report: &mut Report<'_>,
) -> Result<Vec<Wanted>, Stop> {
    let mut written = Written { instance, budget, report, counters: Vec::new(), all: Vec::new() };
    for claim in &instance.plan.claims {
        for rank in 0..instance.program.ranks() {
            written.counters = vec![None; instance.plan.counters.len()];
            written.claim(claim, rank, &claim.around)?;
        }
    }
    Ok(written.all)
}

impl Wanted {
    /// How many terms its elements have.
    pub(super) fn terms(&self) -> usize {
        self.of.len()
    }

    /// What it should hold.
    pub(super) fn pieces(&self, values: &mut Values) -> Pieces {
        let own = (self.rank, self.to);
        let of = if self.of.is_empty() { std::slice::from_ref(&own) } else { &self.of };
        let initial = |&(rank, span): &(u32, Span)| {
            Pieces::one(span.len(), values.term((rank, span.object, span.start)))
        };
        let parts: Vec<Pieces> = of.iter().map(initial).collect();
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
        let to = self.instance.program.objects.span(&claim.to, &self.env(rank), None);
        let to = to.map_err(|why| self.no_region(claim, rank, why))?;
        let mut of = Vec::new();
        for source in &claim.of {
            self.source(claim, rank, source, &source.around, &mut of)?;
        }
        if let Some((other, span)) = of.iter().find(|(_, span)| span.len() != to.len()) {
            let (own, theirs) = (self.report.name(to), self.report.name(*span));
            let text = format!(
                "says that {own}, of {} elements, is made of {theirs} of rank {other}, of {}",
                to.len(),
                span.len()
            );
            let title = "what the plan says it computes is of two lengths";
            return self.refuse(claim, rank, (Check::Postcondition, title), text);
        }
        self.all.push(Wanted { at: claim.at, rank: rank as u32, to, by: claim.by, of });
        Ok(())
    }

    fn source(
        &mut self,
        claim: &Claim,
        rank: usize,
        source: &Source,
        around: &[Around],
        of: &mut Vec<(u32, Span)>,
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
        let span = self.instance.program.objects.span(&source.region, &self.env(rank), None);
        of.push((peer, span.map_err(|why| self.no_region(claim, rank, why))?));
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
        let line = Line { rank: Some(rank), other: None, at: claim.at, text: turn };
        self.report.tell(check, claim.at, title, vec![line], &["change the `computes` line"]);
        Err(Stop::Reported)
    }
}
