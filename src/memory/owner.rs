//! Owners of adopted memory.

use std::any::Any;
use std::fmt;

use super::Claim;
use crate::unwind;

/// Keeps adopted memory alive; dropped when nothing of ours uses the memory any more. A panic of
/// its drop ends there.
pub struct Owner {
    owner: Option<Box<dyn Any + Send>>,
    /// The claim on the elements, if others can name them too.
    claim: Option<Claim>,
}

impl Owner {
    pub(crate) fn new(owner: Box<dyn Any + Send>, claim: Option<Claim>) -> Self {
        Self { owner: Some(owner), claim }
    }

    pub(super) fn into_inner<O: 'static>(mut self) -> Result<Box<O>, Self> {
        match self.owner.take().map(Box::<dyn Any + Send>::downcast) {
            Some(Ok(owner)) => Ok(owner),
            Some(Err(owner)) => Err(Self { owner: Some(owner), claim: self.claim.take() }),
            None => Err(self),
        }
    }

    /// Lets others use the elements.
    pub(super) fn unclaim(&mut self) {
        self.claim = None;
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Without the owner the elements may become another tensor's at once.
        self.claim = None;
        let owner = self.owner.take();
        if let Err(panic) = unwind::catch(move || drop(owner)) {
            log::error!("the owner of adopted memory panicked when dropped: {}", panic.message());
            panic.end();
        }
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner")
    }
}
