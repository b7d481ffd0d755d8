//! A launch takes the device communicators of its stream's device.

use typed_nccl::{At, DevComm, Host, Result, Stream};

fn launch(stream: &Stream<Host<At<0>>>, dev: &DevComm<Host<At<0>>>) -> Result<()> {
    stream.launch((dev,), |_, ()| {})
}

fn main() {}
