//! Requests of tasks, which wait for their turn without a thread.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use super::ordered::{Ordered, Turn};
use super::{Communicator, Health};
use crate::control::{Agenda, Request};
use crate::error::{Abort, Site};
use crate::reactor::Registration;
use crate::{Rank, Result, World, wait};

impl<W: World> Ordered<W> {
    /// [`submit`](Self::submit) for a task: a future that waits for the request's turn without a
    /// thread, and then runs `call` where it is polled. It needs no runtime. The request is
    /// submitted when the future is first polled.
    ///
    /// `call` must not wait, as it runs on the runtime's thread: enqueue in it, and await
    /// [`submitted`](Communicator::submitted).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use typed_nccl::{Avg, Buffer, Ordered, Result, World};
    ///
    /// async fn average<W: World>(
    ///     ordered: Arc<Ordered<W>>,
    ///     request: u64,
    ///     mut x: Buffer<f32, W::Device>,
    /// ) -> Result<Buffer<f32, W::Device>> {
    ///     let work = ordered.submit_async(request, |comm| {
    ///         comm.all_reduce_in_place(&mut x, Avg)?;
    ///         comm.submitted()
    ///     });
    ///     work.await?.await?;
    ///     Ok(x)
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`submit`](Self::submit). A future that was polled and is dropped before its turn aborts
    /// the communicator for all requests, as the other ranks wait for this one: await it, and let
    /// the communicator's deadline limit the wait.
    #[track_caller]
    pub fn submit_async<T, F>(
        &self,
        key: impl fmt::Display,
        call: F,
    ) -> impl Future<Output = Result<T>>
    where
        F: FnOnce(&mut Communicator<W>) -> Result<T>,
    {
        let (site, key) = (Site::caller(), key.to_string());
        async move {
            wait::allowed("submit_async", site)?;
            self.health.check()?;
            let _in_flight = self.enter(&key, site)?;
            let request = self.here.agenda.submit(self.here.rank, &key, site);
            let mut submitted =
                Submitted { health: &self.health, rank: self.rank(), site, key: Some(&key) };
            let turn = self.turn_of(request, site).await;
            submitted.key = None;
            turn.inspect_err(|error| self.health.fail(error.clone()))?;
            Turn::of(self, &key, site).take(call)
        }
    }

    /// Waits for a request's turn.
    fn turn_of(
        &self,
        request: Arc<Request>,
        site: Site,
    ) -> impl Future<Output = Result<()>> + Send + use<'_, W> {
        let started = Instant::now();
        let mut waking = None;
        let left =
            move |request: &Request| self.left_until_turn("submit_async", request, site, started);
        poll_fn(move |context| match left(&request) {
            Ok(None) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(error)),
            Ok(Some(_)) => {
                let new = || self.wakes_at_turn(request.clone(), started);
                waking.get_or_insert_with(new).wakes(context.waker());
                Poll::Pending
            }
        })
    }

    /// Wakes a task when there is something to do for its request.
    fn wakes_at_turn(&self, request: Arc<Request>, started: Instant) -> Registration {
        let (agenda, rank): (Arc<Agenda>, Rank) = (self.here.agenda.clone(), self.here.rank);
        let (health, deadline) = (self.health.clone(), self.deadline);
        Registration::new(move || {
            health.look();
            health.watch_who_is_late();
            let is_lost = !health.is_well() || !agenda.lost(&request).is_empty();
            is_lost || agenda.is_turn(rank, &request) || started.elapsed() >= deadline
        })
    }
}

/// A request that waits for its turn. If its task is dropped meanwhile, it will not be issued.
struct Submitted<'a> {
    health: &'a Health,
    rank: Rank,
    site: Site,
    /// `None` once the wait is over.
    key: Option<&'a str>,
}

impl Drop for Submitted<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let (by, at) = (self.rank, self.site);
            let why = format!("the task of the request `{key}` was dropped before its turn");
            self.health.fail(Abort { why, by, at }.into());
        }
    }
}
