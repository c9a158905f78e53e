//! How a connection comes at what lies where what is rare lies: recovery, maps, and what [`Cold`]
//! holds.

use super::cc::{Cc, Law};
use super::cold::Cold;
use super::conn::Conn;
use super::context::Pools;
use super::held::Held;
use super::marks::Marks;
use super::rare_stats::RareStats;
use super::reasm::Reasm;
use super::recovery::{Known, Points, Recovery, Status};
use super::sack::Scoreboard;
use crate::store::Env;

impl<E: Env> Conn<E> {
    /// Notes something in the record, which is taken if there is none yet. There are as many places
    /// as connections.
    pub(crate) fn note_rare(&mut self, p: &mut Pools<E>, what: impl FnOnce(&mut RareStats)) {
        if self.rare.is_none() {
            self.rare.take(&mut p.rare_stats, RareStats::at(self.snd.una));
        }
        if let Some(rare) = self.rare.get_mut(&mut p.rare_stats) {
            what(rare);
        }
    }

    /// The record, empty when there is none.
    pub(crate) fn suffered<'a>(&self, p: &'a Pools<E>) -> &'a RareStats {
        self.rare.get(&p.rare_stats).unwrap_or(&RareStats::NONE)
    }

    /// What lies there.
    pub(crate) fn cold(&self, p: &Pools<E>) -> Cold {
        self.rare.get(&p.rare_stats).map_or(Cold::at(self.snd.una), |rare| rare.cold)
    }

    /// All that is known of recovery.
    pub(crate) fn recovery(&self, p: &Pools<E>) -> Recovery {
        Recovery::of(self.cold(p).points, self.recovery)
    }

    /// Recovery takes a step.
    pub(crate) fn step_recovery<T>(
        &mut self,
        p: &mut Pools<E>,
        step: impl FnOnce(&mut Recovery, &mut Pools<E>) -> T,
    ) -> T {
        let mut recovery = self.recovery(p);
        let result = step(&mut recovery, p);
        let (points, status) = recovery.parts();
        self.recovery = status;
        if !self.rare.is_none() || recovery.is_needed(self.snd.una) {
            self.note_rare(p, |t| t.cold.points = points);
        }
        result
    }

    /// By which law the congestion window moves.
    fn law(&self, cold: &Cold) -> Law {
        let kind = self.settings.congestion();
        if cold.law.kind() == kind { cold.law } else { Law::new(kind) }
    }

    /// Congestion control as a whole.
    pub(crate) fn congestion(&self, p: &Pools<E>) -> Cc {
        Cc::of(self.cc, self.law(&self.cold(p)))
    }

    /// Congestion control takes a step.
    pub(crate) fn step_congestion(&mut self, p: &mut Pools<E>, step: impl FnOnce(&mut Cc)) {
        let mut cc = self.congestion(p);
        step(&mut cc);
        let (window, law) = cc.parts();
        self.cc = window;
        if !self.rare.is_none() || law.is_needed() {
            self.note_rare(p, |t| t.cold.law = law);
        }
    }

    /// An ACK arrived outside of fast recovery while the congestion window was not in use.
    #[cold]
    #[inline(never)]
    pub(crate) fn pause_growth(&mut self, p: &mut Pools<E>) {
        if let Some(rare) = self.rare.get_mut(&mut p.rare_stats) {
            rare.cold.law.pause();
        }
    }

    /// Our SYN is acknowledged: nothing is to be recovered.
    pub(crate) fn begin_recovery(&mut self, p: &mut Pools<E>) {
        let una = self.snd.una;
        let has_board = self.recovery.has_board();
        self.recovery = Status::NEW;
        self.recovery.set_board(has_board);
        if let Some(rare) = self.rare.get_mut(&mut p.rare_stats) {
            (rare.cold.points, rare.cold.law) = (Points::at(una), Law::NONE);
        }
    }

    /// Where the scoreboard lies.
    #[inline]
    pub(crate) fn sack(&self, p: &Pools<E>) -> Held<Scoreboard> {
        if self.recovery.has_board() { self.suffered(p).cold.sack } else { Held::NONE }
    }

    /// The scoreboard.
    #[inline]
    pub(crate) fn board<'a>(&self, p: &'a Pools<E>) -> Option<&'a Scoreboard> {
        self.sack(p).get(&p.boards)
    }

    /// What is known of what is in flight.
    pub(super) fn known<'a>(&self, p: &'a Pools<E>) -> Known<'a> {
        Known { board: self.board(p), sent: self.sent.get(&p.sent) }
    }

    /// Takes a scoreboard, if there is a free one.
    pub(crate) fn take_board(&mut self, p: &mut Pools<E>, board: Scoreboard) {
        let mut sack = self.sack(p);
        sack.take(&mut p.boards, board);
        self.note_rare(p, |t| t.cold.sack = sack);
        self.recovery.set_board(!sack.is_none() && !self.rare.is_none());
    }

    /// Gives it back.
    pub(crate) fn give_board_back(&mut self, p: &mut Pools<E>) {
        if self.recovery.has_board() {
            self.sack(p).give_back(&mut p.boards);
            self.note_rare(p, |t| t.cold.sack = Held::NONE);
            self.recovery.set_board(false);
        }
    }

    /// Where the map of what came early lies.
    pub(crate) fn reasm(&self, p: &Pools<E>) -> Held<Reasm> {
        self.suffered(p).cold.reasm
    }

    /// Takes such a map, if there is a free one.
    pub(crate) fn take_reasm(&mut self, p: &mut Pools<E>, map: Reasm) {
        let mut reasm = self.reasm(p);
        reasm.take(&mut p.reasm, map);
        self.note_rare(p, |t| t.cold.reasm = reasm);
    }

    /// Gives it back.
    pub(crate) fn give_reasm_back(&mut self, p: &mut Pools<E>) {
        if let Some(rare) = self.rare.get_mut(&mut p.rare_stats) {
            rare.cold.reasm.give_back(&mut p.reasm);
        }
    }

    /// Gives back the maps of what was lost and of what came early.
    pub(crate) fn give_maps_back(&mut self, p: &mut Pools<E>) {
        if !self.rare.is_none() {
            self.give_reasm_back(p);
            self.give_board_back(p);
        }
    }

    /// Whether there is more to remember than [`Cold::at`] says.
    pub(crate) fn needs(&self, cold: &Cold) -> bool {
        let Cold { reasm, sack, .. } = Cold::at(self.snd.una);
        Cold { reasm, sack, ..self.told(cold) } != Cold::at(self.snd.una)
    }

    /// The same without what means nothing now.
    pub(crate) fn told(&self, cold: &Cold) -> Cold {
        let none = Cold::at(self.snd.una);
        let recovers = Recovery::of(cold.points, self.recovery).is_needed(self.snd.una);
        Cold {
            points: if recovers { cold.points } else { none.points },
            law: Some(self.law(cold)).filter(Law::is_needed).unwrap_or(Law::NONE),
            snd_urgent: if self.marks.has(Marks::SEND_URGENT) {
                cold.snd_urgent
            } else {
                none.snd_urgent
            },
            rcv_urgent: if self.settings.urgent_waits() {
                cold.rcv_urgent
            } else {
                none.rcv_urgent
            },
            ..*cold
        }
    }
}
