//! Locks that do not poison: what they guard is whole whenever they are released, by a panic too.

use std::sync::{self, Condvar, PoisonError, TryLockError};

pub(crate) use std::sync::MutexGuard;

/// A [`std::sync::Mutex`] without poisoning.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T: ?Sized>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` while it is locked.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// [`Condvar::wait`] without poisoning.
pub(crate) fn wait<'g, T>(condvar: &Condvar, guard: MutexGuard<'g, T>) -> MutexGuard<'g, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}
