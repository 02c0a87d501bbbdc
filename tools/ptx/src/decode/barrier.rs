//! Barriers of threads (`bar`, `barrier`) and barriers in shared memory (`mbarrier`).

use super::Decoder;
use super::modifiers::Modifiers;
use crate::error::PtxError;
use crate::parse::syntax::{Operand, Statement};
use crate::program::{ControlOp, ExchangeOp, Long, MemoryOp, Op};

impl<'a> Decoder<'_, 'a> {
    pub(super) fn barrier(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Option<Op>, PtxError> {
        if m.head == "mbarrier" {
            return self.phase_barrier(s, m);
        }
        if m.has("warp") {
            m.allow(&["warp", "sync"])?;
            return Ok(Some(Op::Exchange(ExchangeOp::WarpBarrier { members: self.bits(s, 0)? })));
        }
        m.allow(&["sync", "arrive", "cta", "aligned"])?;
        self.takes(s, m, 1..=2)?;
        let id = self.bits(s, 0)?;
        if m.has("arrive") {
            // How many threads it takes is what those that wait say.
            return Ok(Some(Op::Control(ControlOp::BarrierArrive { id })));
        }
        let threads = if s.operands.len() == 2 { Some(self.bits(s, 1)?) } else { None };
        Ok(Some(Op::Control(ControlOp::Barrier { id, threads })))
    }

    fn phase_barrier(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Option<Op>, PtxError> {
        let mut known = vec!["shared", "shared::cta", "release", "acquire", "relaxed", "cta", "cluster"];
        let operation = *m.rest.first().ok_or_else(|| m.unsupported())?;
        known.push(operation);
        if operation.ends_with("_wait") {
            known.push("parity");
        }
        m.allow(&known)?;
        let space = m.space();
        match operation {
            "init" => Ok(Some(Op::Memory(MemoryOp::PhaseInit {
                address: self.address(s, 0, space)?,
                count: self.bits(s, 1)?,
            }))),
            "inval" => Ok(None),
            "arrive" => {
                self.takes(s, m, 2..=3)?;
                let d = self.to_long(s, 0)?;
                let count = if s.operands.len() == 3 { self.bits(s, 2)? } else { self.word_constant(1) };
                Ok(Some(Op::Memory(MemoryOp::PhaseArrive { d, address: self.address(s, 1, space)?, count })))
            }
            // A hint of how long to wait may follow.
            "test_wait" | "try_wait" => {
                self.takes(s, m, 3..=4)?;
                let d = self.to_pred_of(s, 0, self.operand(s, 0))?;
                let address = self.address(s, 1, space)?;
                Ok(Some(if m.has("parity") {
                    Op::Memory(MemoryOp::PhaseTestParity { d, address, parity: self.bits(s, 2)? })
                } else {
                    Op::Memory(MemoryOp::PhaseTest { d, address, token: self.long(s, 2)? })
                }))
            }
            _ => Err(m.unsupported()),
        }
    }

    /// `cp.async.mbarrier.arrive`: the copies it would wait for are complete.
    pub(super) fn copy_async_arrive(
        &mut self,
        s: &Statement<'a>,
        m: &Modifiers<'a>,
    ) -> Result<Option<Op>, PtxError> {
        m.allow(&["async", "mbarrier", "arrive", "noinc", "shared", "shared::cta"])?;
        let Some(Operand::Address(..)) = s.operands.first() else {
            return Err(self.misfit(s, 0, "an address"));
        };
        // Without `noinc` one more arrival is expected and made, which changes nothing.
        if !m.has("noinc") {
            return Ok(None);
        }
        let count = self.word_constant(1);
        Ok(Some(Op::Memory(MemoryOp::PhaseArrive {
            d: Long::SINK,
            address: self.address(s, 0, m.space())?,
            count,
        })))
    }
}
