//! Ranks that leave before their time: the others are told once it is known why.
//!
//! `?` drops a communicator before anybody has seen the error. Where the ranks are `spmd`'s or
//! `launch!`'s, the end of the rank's body says why it left: with the error that it returned, or with
//! its panic. A body that goes on keeps the others waiting for [`GRACE`] and no longer.

use std::any::Any;
use std::cell::RefCell;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::reaper::{self, Orphan};
use crate::lock::Mutex;

/// How long the others may not know, while the body goes on.
const GRACE: Duration = Duration::from_millis(500);

thread_local! {
    /// What left in the rank's body that this thread runs, if it runs one.
    static BODY: RefCell<Option<Vec<Leaving>>> = const { RefCell::new(None) };
}

type Tell = Box<dyn FnOnce(&str) + Send>;

/// A rank that leaves.
#[derive(Clone)]
pub(crate) struct Leaving(Arc<State>);

struct State {
    /// What is said if nobody knows better.
    otherwise: &'static str,
    /// None once it is called.
    tell: Mutex<Option<Tell>>,
    /// Why, once the others know.
    why: OnceLock<String>,
}

impl Leaving {
    /// Tells the others, once.
    fn tell(&self, why: Option<&str>) {
        let tell = self.0.tell.lock().take();
        let Some(tell) = tell else { return };
        let why = why.unwrap_or(self.0.otherwise);
        tell(why);
        // Whoever took it from the lock is the only one who gets here.
        let _ = self.0.why.set(why.to_owned());
    }

    /// Why the rank left, once the others have been told.
    pub(super) fn why(&self) -> Option<&str> {
        self.0.why.get().map(String::as_str)
    }
}

/// This rank leaves: `tell` tells the others why. That is `otherwise` unless its body says more.
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

/// Runs a rank's body. What leaves in it is told with the error that it returns, or with its panic;
/// before that `failed` is.
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

/// Why a rank left whose thread panicked.
fn panicked(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    match text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)) {
        Some(text) => format!("{PANICKED}: {text}"),
        None => PANICKED.to_owned(),
    }
}

pub(super) const PANICKED: &str = "its thread panicked";

/// Tells when the body has gone on for too long.
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
        // Where there is no thread to poll it.
        self.leaving.tell(None);
    }
}
