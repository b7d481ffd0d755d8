//! Numbers that agree with the facts: where a goal is negative for one of them, no proof of it is looked
//! for.
//!
//! Nothing is right or wrong because of these: without them the same is proved, later.

use super::atom::Atom;
use super::poly::Term;

/// How often numbers are guessed.
const GUESSES: u64 = 10;
/// How far from where a number may begin it is chosen, if nothing else is known.
const STEPS: [i128; 8] = [0, 0, 1, 1, 2, 3, 7, 40];

/// Some assignments of numbers to the atoms of some facts.
#[derive(Debug)]
pub(super) struct Models {
    /// Sorted.
    atoms: Vec<Atom>,
    values: Vec<Vec<i128>>,
}

impl Models {
    /// Assignments for which all of the facts hold. The atoms are all that stand in them.
    pub(super) fn of(facts: &[Vec<Term>], atoms: &[Atom]) -> Self {
        let mut models = Self { atoms: atoms.to_vec(), values: Vec::new() };
        models.atoms.sort_unstable();
        // What has to be looked at when an atom gets its number, the others before having theirs.
        let mut due: Vec<Vec<&[Term]>> = vec![Vec::new(); models.atoms.len()];
        for fact in facts {
            let last = fact.iter().flat_map(|(monomial, _)| monomial.atoms()).max();
            if let Some(Ok(at)) = last.map(|last| models.atoms.binary_search(&last)) {
                due[at].push(fact);
            }
        }
        let mut random = Random(1);
        for _ in 0..GUESSES {
            if let Some(values) = models.guess(&due, &mut random)
                && !models.values.contains(&values)
            {
                models.values.push(values);
            }
        }
        models
    }

    /// Whether something is negative in one of them.
    pub(super) fn refute(&self, goal: &[Term]) -> bool {
        self.values.iter().any(|values| self.value(goal, values).is_some_and(|value| value < 0))
    }

    fn guess(&self, due: &[Vec<&[Term]>], random: &mut Random) -> Option<Vec<i128>> {
        let mut values = Vec::with_capacity(self.atoms.len());
        for due in due {
            let (mut from, mut to) = (None, None);
            for fact in due {
                // times * atom + rest >= 0
                values.push(0);
                let rest = self.value(fact, &values)?;
                values.pop();
                values.push(1);
                let times = self.value(fact, &values)?.checked_sub(rest)?;
                values.pop();
                match times {
                    1.. => from = from.max(Some(-rest.div_euclid(times))),
                    0 => {}
                    _ => {
                        let end = rest.div_euclid(-times);
                        to = Some(to.map_or(end, |to: i128| to.min(end)));
                    }
                }
            }
            let step = STEPS[random.below(STEPS.len() as u64) as usize];
            let value = match (from, to) {
                (None, None) => step - 1,
                (Some(from), None) => from.checked_add(step)?,
                (None, Some(to)) => to.checked_sub(step)?,
                (Some(from), Some(to)) if from > to => return None,
                (Some(from), Some(to)) => match random.below(3) {
                    0 => from.checked_add(step)?.min(to),
                    1 => to,
                    _ => {
                        let width = u64::try_from(to.checked_sub(from)?).ok()?;
                        from + i128::from(random.below(width.saturating_add(1)))
                    }
                },
            };
            values.push(value);
            // Powers of the atom are not what was looked at above.
            if due.iter().any(|fact| self.value(fact, &values).is_none_or(|value| value < 0)) {
                return None;
            }
        }
        Some(values)
    }

    /// None if it is too large, or has other atoms.
    fn value(&self, terms: &[Term], values: &[i128]) -> Option<i128> {
        let mut sum = 0i128;
        for &(monomial, factor) in terms {
            let mut product = factor;
            for atom in monomial.atoms() {
                let at = self.atoms.binary_search(&atom).ok()?;
                product = product.checked_mul(*values.get(at)?)?;
            }
            sum = sum.checked_add(product)?;
        }
        Some(sum)
    }
}

/// The same numbers in every run: what is proved must not depend on chance.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }
}
