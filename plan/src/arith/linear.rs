//! Linear reasoning: whether a sum of facts, each counted some times, contradicts another fact.
//!
//! Products of atoms count as unknowns of their own here. By Farkas' lemma a system of linear
//! inequalities has no solution over the rationals just when some non-negative multiples of them add up
//! to `-1 >= 0`. Looking for the multiples is the first phase of the simplex method, done in whole
//! numbers; Bland's rule makes it end.

use super::poly::{Monomial, Term};

/// Facts, and products of atoms in them, at most.
const COLUMNS: usize = 96;
const ROWS: usize = 48;
const PIVOTS: usize = 80;

/// Facts, each of which says that something is not negative.
#[derive(Debug)]
pub(super) struct System {
    facts: Vec<Vec<Term>>,
    /// The products in them, with a plus (true) or a minus: sorted.
    signs: Vec<(Monomial, bool)>,
}

impl System {
    pub(super) fn new(facts: Vec<Vec<Term>>) -> Self {
        let mut signs: Vec<(Monomial, bool)> = facts.iter().flat_map(|fact| signs(fact)).collect();
        signs.sort_unstable();
        signs.dedup();
        Self { facts, signs }
    }

    pub(super) fn facts(&self) -> &[Vec<Term>] {
        &self.facts
    }

    /// Whether `goal >= 0` contradicts the facts.
    ///
    /// `false` also where the numbers become too large, or the search too long.
    pub(super) fn contradicts(&self, goal: &[Term]) -> bool {
        // What no fact can cancel needs no further look.
        let cancels = |(monomial, plus): (Monomial, bool)| {
            self.signs.binary_search(&(monomial, !plus)).is_ok()
        };
        if !signs(goal).all(cancels) {
            return false;
        }
        let mut columns: Vec<&[Term]> = vec![goal];
        columns.extend(self.facts.iter().map(Vec::as_slice));
        let Some(rows) = prune(&mut columns) else { return false };
        if columns.len() > COLUMNS || rows.len() > ROWS {
            return false;
        }
        Tableau::new(&columns, &rows).is_some_and(|tableau| tableau.solvable().unwrap_or(false))
    }
}

fn signs(terms: &[Term]) -> impl Iterator<Item = (Monomial, bool)> + '_ {
    let products = terms.iter().filter(|(monomial, _)| *monomial != Monomial::ONE);
    products.map(|&(monomial, factor)| (monomial, factor > 0))
}

/// Leaves out facts with a product that no other fact can cancel; answers with the products that are
/// left, or nothing if the goal itself, the first, is left out.
fn prune(columns: &mut Vec<&[Term]>) -> Option<Vec<Monomial>> {
    loop {
        // Whether each product occurs with a plus, and with a minus.
        let mut signs: Vec<(Monomial, bool)> =
            columns.iter().flat_map(|column| signs(column)).collect();
        signs.sort_unstable();
        signs.dedup();
        let both: Vec<Monomial> =
            signs.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[0].0).collect();
        if both.len() * 2 == signs.len() {
            return Some(both);
        }
        let cancels = |column: &[Term]| {
            column.iter().all(|(m, _)| *m == Monomial::ONE || both.binary_search(m).is_ok())
        };
        if !cancels(columns[0]) {
            return None;
        }
        columns.retain(|column| cancels(column));
    }
}

/// Equations `sum of column * multiple = right`, all over one denominator, with the unknown multiples
/// at zero or above.
struct Tableau {
    /// A row for each product, one for the constants, and their sum; the right side stands last.
    rows: Vec<Vec<i128>>,
    /// Which unknown a row (but the sum) gives: a column, or beyond them the row's own artificial one.
    basis: Vec<usize>,
    denominator: i128,
}

impl Tableau {
    fn new(columns: &[&[Term]], products: &[Monomial]) -> Option<Self> {
        let width = columns.len() + 1;
        let mut rows = vec![vec![0i128; width]; products.len() + 2];
        for (j, column) in columns.iter().enumerate() {
            for &(monomial, factor) in *column {
                // The products cancel; the constants add up to -1.
                let (row, value) = match products.binary_search(&monomial) {
                    Ok(row) => (row, factor),
                    Err(_) => (products.len(), -factor),
                };
                rows[row][j] = value;
            }
        }
        rows[products.len()][width - 1] = 1;
        let sum = products.len() + 1;
        for j in 0..width {
            rows[sum][j] =
                rows[..sum].iter().try_fold(0i128, |total, row| total.checked_add(row[j]))?;
        }
        let basis = (0..sum).map(|row| columns.len() + row).collect();
        Some(Self { rows, basis, denominator: 1 })
    }

    /// Whether the equations have a solution. None: not decided.
    fn solvable(mut self) -> Option<bool> {
        let sum = self.basis.len();
        let right = self.rows[sum].len() - 1;
        for _ in 0..PIVOTS {
            if self.rows[sum][right] == 0 {
                return Some(true);
            }
            let Some(column) = (0..right).find(|&j| self.rows[sum][j] > 0) else {
                return Some(false);
            };
            let mut best: Option<usize> = None;
            for i in (0..sum).filter(|&i| self.rows[i][column] > 0) {
                let better = match best {
                    None => true,
                    Some(b) => {
                        let mine = self.rows[i][right].checked_mul(self.rows[b][column])?;
                        let its = self.rows[b][right].checked_mul(self.rows[i][column])?;
                        (mine, self.basis[i]) < (its, self.basis[b])
                    }
                };
                if better {
                    best = Some(i);
                }
            }
            self.pivot(best?, column)?;
        }
        None
    }

    fn pivot(&mut self, row: usize, column: usize) -> Option<()> {
        let pivot = self.rows[row][column];
        let source = self.rows[row].clone();
        for (i, target) in self.rows.iter_mut().enumerate() {
            let factor = target[column];
            if i == row || (factor == 0 && pivot == self.denominator) {
                continue;
            }
            for (value, from) in target.iter_mut().zip(&source) {
                let scaled = value.checked_mul(pivot)?;
                let taken = factor.checked_mul(*from)?;
                let new = scaled.checked_sub(taken)?;
                // Exact: all entries are minors of the first tableau.
                *value = if self.denominator == 1 { new } else { new / self.denominator };
            }
        }
        self.denominator = pivot;
        self.basis[row] = column;
        Some(())
    }
}
