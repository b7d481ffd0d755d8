//! Peers along axes: `(r + 1) % n`, `r - 1`, `(r.nodes + 1) % nodes, r.local - 1`.

use super::{Formula, Read};
use crate::ir::{AxisId, Expr, Hop, Peer};

impl Formula<'_> {
    /// The peer that the text says, some places further along axes.
    pub(in crate::json) fn peer(mut self) -> Read<Peer> {
        let mut hops = Vec::new();
        loop {
            hops.push(self.hop()?);
            if !self.take(",") {
                break;
            }
        }
        self.end()?;
        Ok(Peer::Shift(hops))
    }

    fn hop(&mut self) -> Read<Hop> {
        let begins = self.at;
        let number = self.number()?;
        let one_axis = self.declared.names.plan.axes.len() == 1;
        let hop = match number {
            Expr::Rem(place, extent) => {
                let along = match *extent {
                    Expr::Extent(axis) => Some(axis),
                    Expr::Size if one_axis => Some(AxisId(0)),
                    _ => None,
                };
                moved(*place, one_axis)
                    .filter(|(axis, _)| along == Some(*axis))
                    .map(|(axis, by)| Hop { axis, by: by.unwrap_or(Expr::Int(0)), wrap: true })
            }
            _ if self.remainder(begins) => {
                self.at = begins;
                return self.fault(
                    "`%` binds before `+` and `-`: write `(r + 1) % n` for a ring, or `r + (k % n)`",
                );
            }
            place => moved(place, one_axis).map(|(axis, by)| Hop {
                axis,
                by: by.unwrap_or(Expr::Int(0)),
                wrap: false,
            }),
        };
        match hop {
            Some(hop) => Ok(hop),
            None => {
                self.at = begins;
                let (open, ring) =
                    if one_axis { ("r + 1", "(r + 1) % n") } else { ("r.x + 1", "(r.x + 1) % x") };
                self.fault(format!(
                    "a peer is written as `{open}`, or `{ring}` with an axis as the divisor; any other \
                     rank as {{\"rank\": \"..\"}}"
                ))
            }
        }
    }
}

impl Formula<'_> {
    /// Whether a `%` stands outside of all parentheses in what was read from there on.
    fn remainder(&self, begins: usize) -> bool {
        let mut chars = self.text[begins..self.at].chars();
        let (mut depth, mut quoted) = (0_usize, false);
        while let Some(char) = chars.next() {
            match char {
                '`' => quoted = !quoted,
                '\\' if quoted => {
                    chars.next();
                }
                _ if quoted => {}
                '(' | '[' => depth += 1,
                ')' | ']' => depth = depth.saturating_sub(1),
                '%' if depth == 0 => return true,
                _ => {}
            }
        }
        false
    }
}

/// Along which axis, and how far, if this is the rank's own place with something added.
///
/// Texts are at most 66 deep, and so is this.
fn moved(number: Expr, one_axis: bool) -> Option<(AxisId, Option<Expr>)> {
    match number {
        Expr::Rank if one_axis => Some((AxisId(0), None)),
        Expr::Coordinate(axis) => Some((axis, None)),
        Expr::Add(before, by) => {
            let (axis, before) = moved(*before, one_axis)?;
            let by = match before {
                None => *by,
                Some(before) => Expr::Add(Box::new(before), by),
            };
            Some((axis, Some(by)))
        }
        Expr::Sub(before, by) => {
            let (axis, before) = moved(*before, one_axis)?;
            let by = match (before, *by) {
                (None, Expr::Int(by)) if by != i64::MIN => Expr::Int(-by),
                (before, by) => Expr::Sub(Box::new(before.unwrap_or(Expr::Int(0))), Box::new(by)),
            };
            Some((axis, Some(by)))
        }
        _ => None,
    }
}
