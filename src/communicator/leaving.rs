//! Ranks that leave early: the others are told once the reason is known.
//!
//! `?` drops a communicator before anything has seen the error. Under `spmd` and `launch!` the end
//! of the rank's body supplies the reason: the error that it returned, or its panic. If the body
//! continues, the others wait for the reason no longer than [`GRACE`].

use std::any::Any;
use std::cell::RefCell;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::reaper::{self, Orphan};
use crate::lock::Mutex;

/// How long the other ranks may wait for the reason while the body continues.
const GRACE: Duration = Duration::from_secs(2);

thread_local! {
    /// What has left during the rank's body on this thread; `None` outside a body.
    static BODY: RefCell<Option<Vec<Leaving>>> = const { RefCell::new(None) };
}

type Tell = Box<dyn FnOnce(&str) + Send>;

/// The departure of a rank.
#[derive(Clone)]
pub(crate) struct Leaving(Arc<State>);

struct State {
    /// The reason if no better one turns up.
    otherwise: &'static str,
    /// `None` once it has been called.
    tell: Mutex<Option<Tell>>,
    /// The reason, once the others have been told.
    why: OnceLock<String>,
}

impl Leaving {
    /// Tells the others, once. Returns when they have been told, by whichever thread: the process
    /// may end then, and would give a reason of its own.
    fn tell(&self, why: Option<&str>) {
        let mut place = self.0.tell.lock();
        let Some(tell) = place.take() else { return };
        let why = why.unwrap_or(self.0.otherwise);
        tell(why);
        // Only the thread that took `tell` gets here.
        let _ = self.0.why.set(why.to_owned());
    }

    /// Why the rank left, once the others have been told.
    pub(super) fn why(&self) -> Option<&str> {
        self.0.why.get().map(String::as_str)
    }
}

/// Makes this rank leave. `tell` gets the reason, which is `otherwise` unless the body supplies
/// one.
pub(crate) fn leave(otherwise: &'static str, tell: impl FnOnce(&str) + Send + 'static) -> Leaving {
    let tell = Mutex::new(Some(Box::new(tell) as Tell));
    let leaving = Leaving(Arc::new(State { otherwise, tell, why: OnceLock::new() }));
    let in_body = BODY.try_with(|body| match &mut *body.borrow_mut() {
        Some(left) => {
            left.push(leaving.clone());
            true
        }
        None => false,
    });
    match in_body {
        Ok(true) => reaper::send(Late { leaving: leaving.clone(), due: Instant::now() + GRACE }),
        _ => leaving.tell(None),
    }
    leaving
}

/// How a rank's body failed.
pub(crate) enum Failure<'a, E> {
    Error(&'a E),
    Panic(&'a (dyn Any + Send)),
}

/// Runs a rank's body. If it fails, calls `failed`, then tells the others its error or panic as the
/// reason for everything that left during it.
pub(crate) fn body<R, E: Display>(
    body: impl FnOnce() -> Result<R, E>,
    failed: impl FnOnce(Failure<'_, E>),
) -> std::thread::Result<Result<R, E>> {
    let outer = BODY.replace(Some(Vec::new()));
    let run = || body().map_err(|error| (format!("it returned an error: {error}"), error));
    let outcome = catch_unwind(AssertUnwindSafe(run));
    let why = match &outcome {
        Ok(Ok(_)) => None,
        Ok(Err((why, error))) => {
            failed(Failure::Error(error));
            Some(why.clone())
        }
        Err(panic) => {
            failed(Failure::Panic(&**panic));
            Some(panicked(&**panic))
        }
    };
    for leaving in BODY.replace(outer).into_iter().flatten() {
        leaving.tell(why.as_deref());
    }
    outcome.map(|outcome| outcome.map_err(|(_, error)| error))
}

/// The reason for a rank whose thread panicked.
fn panicked(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    match text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)) {
        Some(text) => format!("{PANICKED}: {text}"),
        None => PANICKED.to_owned(),
    }
}

pub(super) const PANICKED: &str = "its thread panicked";

/// Tells the others when the body has run on for [`GRACE`].
struct Late {
    leaving: Leaving,
    due: Instant,
}

impl Orphan for Late {
    fn poll(&mut self) -> bool {
        if Instant::now() >= self.due {
            self.leaving.tell(None);
        }
        self.leaving.why().is_some()
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        // For when no thread polls it.
        self.leaving.tell(None);
    }
}
