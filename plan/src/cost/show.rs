//! An estimate as text.

use std::fmt;

use super::estimate::Estimate;

/// The most calls of the critical path to show.
const MOST: usize = 20;

/// The total and the calls that account for it, the longest first.
impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.hangs {
            return writeln!(f, "it never ends: calls wait for one another in a circle");
        }
        writeln!(f, "about {}, of which", Seconds(self.total))?;
        let mut calls: Vec<_> = self.critical.iter().collect();
        calls.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        for call in calls.iter().take(MOST) {
            write!(
                f,
                "  {:>5.1} %  {:>10}",
                100.0 * call.share,
                Seconds(call.seconds).to_string()
            )?;
            write!(f, "  rank {}", call.rank)?;
            if let Some(at) = call.from.first() {
                write!(f, ", line {}", at.line)?;
            }
            writeln!(f)?;
        }
        if calls.len() > MOST {
            let rest: f64 = calls[MOST..].iter().map(|call| call.seconds).sum();
            writeln!(f, "  … {} more calls, {}", calls.len() - MOST, Seconds(rest))?;
        }
        Ok(())
    }
}

/// A time in the most readable unit.
struct Seconds(f64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            time if time >= 1.0 => write!(f, "{time:.2} s"),
            time if time >= 1e-3 => write!(f, "{:.2} ms", time * 1e3),
            time => write!(f, "{:.2} us", time * 1e6),
        }
    }
}
