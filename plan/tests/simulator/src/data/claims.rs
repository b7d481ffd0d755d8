//! What a plan says in its own words that memory holds at the end, element by element.

use typed_nccl_plan::ir::{Around, Claim, Region, Source};
use typed_nccl_plan::verdict::Check;

use crate::expand;
use crate::instance::Where;
use crate::link::Linked;
use crate::memory::{Memory, initial};
use crate::number::{Malformed, Scope};
use crate::outcome::Outcome;
use crate::unit::Span;
use crate::value::{Value, reduce};

/// A rank that looks at a claim, with its counters.
struct Reader<'a> {
    linked: &'a Linked<'a>,
    rank: usize,
    counters: Vec<Option<i64>>,
    outcome: &'a mut Outcome,
}

pub(super) fn check(
    linked: &Linked<'_>,
    memory: &Memory<'_>,
    claim: &Claim,
    outcome: &mut Outcome,
) -> Result<(), Malformed> {
    let before = initial(linked.instance);
    for rank in 0..linked.instance.ranks() {
        let counters = vec![None; linked.instance.plan.counters.len()];
        let mut reader = Reader { linked, rank, counters, outcome };
        let mut bindings = Vec::new();
        reader.turns(&claim.around, &mut bindings)?;
        for counters in bindings {
            let read = |from: &std::collections::BTreeMap<_, Vec<Value>>, rank, span: &Span| {
                let values = from.get(&linked.object(rank, 0, span));
                values.and_then(|values| values.get(span.from..span.to)).unwrap_or(&[]).to_vec()
            };
            let mut reader = Reader { linked, rank, counters, outcome };
            let Some(to) = reader.span(reader.rank, &claim.to)? else { return Ok(()) };
            let mut of = Vec::new();
            for source in &claim.of {
                if !reader.source(source, &mut of)? {
                    return Ok(());
                }
            }
            let sources: Vec<_> =
                of.iter().map(|(rank, span)| read(&before, *rank, span)).collect();
            let found = read(&memory.objects, rank, &to);
            if sources.iter().any(|source| source.len() != found.len()) {
                reader.outcome.note(Check::Postcondition, || "of two lengths".to_owned());
                return Ok(());
            }
            let kept = read(&before, rank, &to);
            let each = |at: usize| match sources.len() {
                0 => kept[at],
                _ => reduce(claim.by, sources.iter().map(|source| source[at])),
            };
            if (0..found.len()).any(|at| each(at) != found[at]) {
                let text = || format!("rank {rank} does not hold what is claimed");
                reader.outcome.note(Check::Postcondition, text);
            }
        }
    }
    Ok(())
}

impl Reader<'_> {
    fn scope(&self) -> Scope<'_> {
        let instance = self.linked.instance;
        let world = &instance.world;
        Scope { instance, rank: Some(self.rank), counters: &self.counters, world }
    }

    /// The counters of each turn of loops whose conditions hold.
    fn turns(
        &mut self,
        around: &[Around],
        all: &mut Vec<Vec<Option<i64>>>,
    ) -> Result<(), Malformed> {
        let Some((first, inner)) = around.split_first() else {
            all.push(self.counters.clone());
            return Ok(());
        };
        match first {
            Around::When(condition) => {
                if self.scope().holds(condition)? {
                    self.turns(inner, all)?;
                }
            }
            Around::Each(each) => {
                let (from, to) = (self.scope().number(&each.from)?, self.scope().number(&each.to)?);
                let base =
                    each.powers.as_ref().map(|base| self.scope().number(base)).transpose()?;
                if base.is_some_and(|base| base < 2) {
                    return Err(Malformed("powers without an end".to_owned()));
                }
                let mut power = 1;
                for value in from..to {
                    let counts = match base {
                        None => true,
                        Some(base) => {
                            while power < value {
                                power *= base;
                            }
                            power == value
                        }
                    };
                    if counts {
                        self.counters[each.counter.index()] = Some(value);
                        self.turns(inner, all)?;
                    }
                }
                self.counters[each.counter.index()] = None;
            }
        }
        Ok(())
    }

    /// Where a region is; nothing if it lies outside, which is noted.
    fn span(&mut self, owner: usize, region: &Region) -> Result<Option<Span>, Malformed> {
        let mut inner = Outcome::default();
        let instance = self.linked.instance;
        let span = expand::at(instance, (self.rank, owner, &self.counters), region, &mut inner)?;
        if inner.notes.contains_key(&Check::Bounds) {
            self.outcome.note(Check::Bounds, || "a claim outside of memory".to_owned());
            self.outcome.note(Check::Postcondition, || "outside of memory".to_owned());
            return Ok(None);
        }
        Ok(Some(span))
    }

    /// Adds what a source names; whether it exists.
    fn source(&mut self, source: &Source, of: &mut Vec<(usize, Span)>) -> Result<bool, Malformed> {
        let outside = self.counters.clone();
        let mut bindings = Vec::new();
        self.turns(&source.around, &mut bindings)?;
        for counters in bindings {
            self.counters = counters;
            match self.linked.instance.peer(self.scope(), &source.rank)? {
                Where::Absent => {}
                Where::Outside(number) => {
                    self.outcome.note(Check::Bounds, || format!("a claim of rank {number}"));
                    self.outcome.note(Check::Postcondition, || format!("of rank {number}"));
                    return Ok(false);
                }
                Where::Rank(rank) => match self.span(rank, &source.region)? {
                    Some(span) => of.push((rank, span)),
                    None => return Ok(false),
                },
            }
        }
        self.counters = outside;
        Ok(true)
    }
}
