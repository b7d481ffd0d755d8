//! One that is connecting is waited for, or ended from another thread.

use typed_nccl::{
    Communicator, Host, Initializing, Invitation, MemoryStats, Recovery, Result, Revoked, Suspended,
};

fn connect(comm: Communicator<Host, Initializing>) -> Result<Communicator<Host>> {
    comm.connect()
}

fn work(comm: &Communicator<Host, Initializing>) -> Result<()> {
    comm.barrier()
}

fn shrink(comm: Communicator<Host, Initializing>) -> Result<Communicator<Host>> {
    comm.shrink(&[1])
}

fn invite(comm: &Communicator<Host, Initializing>) -> Result<Invitation> {
    comm.invite(1)
}

fn revoke(comm: Communicator<Host, Initializing>) -> Communicator<Host, Revoked> {
    comm.revoke()
}

fn recover(comm: &mut Communicator<Host, Initializing>) -> Result<Recovery> {
    comm.recover()
}

fn suspend(comm: Communicator<Host, Initializing>) -> Result<Communicator<Host, Suspended>> {
    comm.suspend()
}

fn resume(comm: Communicator<Host, Initializing>) -> Result<Communicator<Host>> {
    comm.resume()
}

fn memory(comm: &Communicator<Host, Initializing>) -> Result<MemoryStats> {
    comm.memory_stats()
}

fn finish(comm: Communicator<Host, Initializing>) -> Result<()> {
    comm.finish()
}

fn main() {
    _ = (connect, work, shrink, invite, revoke, recover, suspend, resume, memory, finish);
}
