//! The resources that a communicator's kernels need: made once, by all ranks or by none.

use crate::Result;
use crate::backend::{Backend, KernelOffer};
use crate::communicator::Core;
use crate::control::Topic;
use crate::error::{Error, Site, Unsupported};

/// A rank's offer, or why it has none.
type Offer = Result<Option<KernelOffer>, String>;

impl<B: Backend> Core<B> {
    /// The resources that the ranks' kernels share; `None` if the device has no kernels and uses
    /// its own collectives instead. All ranks call it; the first time, the host waits for them.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on all ranks if one of them lacks something. A lost peer; a passed
    /// deadline.
    pub(crate) fn kernel_offer(&self, operation: Topic, site: Site) -> Result<Option<KernelOffer>> {
        self.health.check()?;
        if let Some(kernel_offer) = self.kernel_offer.get() {
            return Ok(*kernel_offer);
        }
        self.may_wait(operation, site)?;
        // NCCL registers memory for the kernels, which must not overlap an operation of the
        // communicator.
        let drained = self.drained(operation, site);
        let own = drained.and_then(|()| B::offer_kernels(self.comm()?));
        let said: Offer = own.as_ref().map(|offer| *offer).map_err(ToString::to_string);
        let all = self.gather(&said, operation, site)?;
        let offer = own?;
        let all = all.into_iter().collect::<Result<Vec<_>, _>>().map_err(lacking)?;
        let least = all.into_iter().reduce(|a, b| {
            let (a, b) = (a?, b?);
            Some(KernelOffer { blocks: a.blocks.min(b.blocks) })
        });
        let kernel_offer = least.flatten().filter(|_| offer.is_some());
        if let Some(agreed) = kernel_offer {
            B::make_kernels(self.comm()?, agreed)?;
            // Nobody launches before all of them have theirs.
            self.barrier(operation, site)?;
        }
        Ok(*self.kernel_offer.get_or_init(|| kernel_offer))
    }
}

/// The error for something that another rank lacks.
#[cold]
fn lacking(why: String) -> Error {
    Error::from(Unsupported {
        what: "kernels of this library".to_owned(),
        needs: "all ranks to have what they take".to_owned(),
        found: format!("another rank has not: {why}"),
    })
}
