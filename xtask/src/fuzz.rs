//! Compares random programs on the host backend with a model; `tests/stress` runs a few seeds of
//! it.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::{Check, Failure};

#[expect(dead_code, reason = "tests use the rest")]
#[path = "stress/suite.rs"]
pub(crate) mod stress;

use stress::script::Script;
use stress::seeds::watched;
use stress::threads::play;
use stress::{deaths, programs, races};

/// How often it reports progress.
const WORD: Duration = Duration::from_secs(30);

/// Runs programs of `kinds` in turn.
pub(crate) fn run(seed: &str, seconds: &str, kinds: &[Kind]) -> Check {
    let number = |text: &str| {
        text.parse::<u64>().map_err(|_| Failure::NotMade(format!("`{text}`: a number")))
    };
    let (first, limit) = (number(seed)?, Duration::from_secs(number(seconds)?));
    let (started, mut told) = (Instant::now(), Duration::ZERO);
    listen();
    let (mut seed, mut findings) = (first, 0);
    while started.elapsed() < limit {
        let kind = kinds[(seed % kinds.len() as u64) as usize];
        if let Some(finding) = find(kind, seed) {
            findings += 1;
            println!("seed {seed}, {kind:?}: {finding}");
            if let Some(smaller) = kind.shrunk(seed) {
                let Script { shape, threads, acts, .. } = smaller;
                println!("{shape:?}, {threads} threads a rank: these do it too");
                acts.iter().for_each(|act| println!("  {act:?}"));
            }
        }
        seed += 1;
        let so_far = started.elapsed();
        if so_far >= told + WORD {
            told = so_far;
            say(first, seed, so_far, findings);
        }
    }
    say(first, seed, started.elapsed(), findings);
    match findings {
        0 => Ok(()),
        _ => Err(Failure::Broken(format!("{findings} findings"))),
    }
}

fn say(first: u64, end: u64, time: Duration, findings: usize) {
    let (count, seconds) = (end - first, time.as_secs_f64());
    let rate = count as f64 / seconds;
    println!(
        "seeds {first}..{end}: {count} programs in {seconds:.0} s, {rate:.1} a second, {findings} findings"
    );
}

/// A kind of program, by seed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// One rank with several threads, which pass buffers, windows, streams and communicators
    /// around.
    Alone,
    /// The same on several ranks.
    Together,
    /// The same, with ranks that die.
    Dying,
    /// One thread per rank.
    Steps,
    Deaths,
    Races,
}

/// How often each kind has its turn.
pub(crate) const TURNS: [Kind; 16] = {
    use Kind::{Alone, Deaths, Dying, Races, Steps, Together};
    [
        Alone, Together, Alone, Dying, Alone, Together, Steps, Alone, Together, Dying, Alone,
        Deaths, Alone, Together, Alone, Races,
    ]
};

/// The kind of that name.
pub(crate) fn kind(name: &str) -> Check<Kind> {
    let named = TURNS.into_iter().find(|kind| format!("{kind:?}").eq_ignore_ascii_case(name));
    named.ok_or_else(|| Failure::NotMade(format!("`{name}` is no kind of program: {TURNS:?}")))
}

/// How long to shrink a failed program.
const SHRINKING: Duration = Duration::from_secs(60);

/// How often to try a smaller program, since failures depend on time.
const TRIES: usize = 40;

impl Kind {
    /// Runs the program of a seed; its panic is the finding.
    fn run(self, seed: u64) {
        match self.script(seed) {
            Some(script) => play(&script),
            None => match self {
                Self::Deaths => deaths::play_seed(seed),
                Self::Races => races::play_seed(seed),
                _ => programs::play_seed(seed),
            },
        }
    }

    fn script(self, seed: u64) -> Option<Script> {
        match self {
            Self::Alone => Some(Script::alone(seed)),
            Self::Together => Some(Script::together(seed)),
            Self::Dying => Some(Script::dying(seed)),
            Self::Steps | Self::Deaths | Self::Races => None,
        }
    }

    /// A smaller program that fails like that of a seed, if there is one.
    fn shrunk(self, seed: u64) -> Option<Script> {
        let mut script = self.script(seed).filter(Script::is_strict)?;
        let started = Instant::now();
        let mut size = script.acts.len() / 2;
        while size > 0 {
            let before = script.acts.len();
            let mut at = 0;
            while at < script.acts.len() {
                let mut smaller = script.clone();
                smaller.acts.drain(at..(at + size).min(before).min(script.acts.len()));
                let fails = (0..TRIES)
                    .take_while(|_| started.elapsed() < SHRINKING)
                    .any(|_| found(|| play(&smaller)).is_some());
                match fails {
                    true => script = smaller,
                    false => at += size,
                }
            }
            size /= 2;
        }
        Some(script)
    }
}

/// Messages of panics.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps the panic messages of all threads, for [`find`].
fn listen() {
    set_hook(Box::new(|panic| {
        SAID.lock().unwrap_or_else(PoisonError::into_inner).push(panic.to_string());
    }));
}

/// The finding of a program, if any.
fn find(kind: Kind, seed: u64) -> Option<String> {
    watched("fuzz", seed, || found(|| kind.run(seed)))
}

fn found(body: impl FnOnce()) -> Option<String> {
    let outcome = catch_unwind(AssertUnwindSafe(body));
    let said = std::mem::take(&mut *SAID.lock().unwrap_or_else(PoisonError::into_inner));
    // The first panic is the cause; the others say that one of their threads panicked.
    outcome.err().map(|_| said.into_iter().next().unwrap_or_default())
}
