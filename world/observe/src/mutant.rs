//! Deliberate mistakes, one at a time, chosen by a test: a simulation that does not find them
//! proves nothing (`cargo run --release -p sim --features mutants -- --mutant NAME`). Without the
//! feature there are none, and nothing is asked.

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mutant {
    /// The reply of a change is not in its transaction.
    ReplyApart = 1,
    /// `last_committed` is one too high.
    CommittedTooHigh = 2,
    /// Changes are done again in the wrong order.
    ReplayDisorder = 3,
    /// Clients that have restored are served while others still restore.
    LockInRecovery = 4,
    /// An answer that shows what another client may not have seen neither brings it along nor
    /// waits.
    TellsTooSoon = 5,
    /// An MDT's sync answers before anything is durable.
    SyncTooSoon = 6,
    /// An OST's sync answers before anything is durable.
    WriteBeforeKept = 7,
    /// An open whose answer was lost counts as closed.
    UnconfirmedOpensForgotten = 8,
    /// A request of a client is taken although its limit is over, and although an MDT has told that
    /// it evicted the client.
    FenceIgnored = 9,
    /// A client does not keep what an OST has answered.
    KeptDroppedEarly = 10,
    /// An answer shows another client's changes but does not bring along the changes that these
    /// rest on.
    RedoAlone = 11,
    /// OPEN of an inode without a name is granted, which nothing ever calls back.
    OpenOfRemoved = 12,
    /// The author of a removal is not told that it holds OPEN of the removed inode.
    OpenNotTold = 13,
    /// What reads a name does not rest on the last change of the name, and does not say where it
    /// found it to lead.
    NameNotFound = 14,
    /// What an operation over several MDTs is changing is shown meanwhile.
    PinnedShown = 15,
    /// An operation over several MDTs rests on what is not durable.
    FoundNotDurable = 16,
    /// The coordinator of such an operation does its part before the others.
    CoordinatorFirst = 17,
    /// Only the coordinator records such an operation.
    RecordedOnce = 18,
    /// A directory is moved over several MDTs while those above its new place may move, too.
    AncestryFree = 19,
    /// An entry of a shared log does not need the epoch of its owner.
    AppendWithoutEpoch = 20,
    /// An entry counts as durable although the log did not answer.
    UnansweredIsDurable = 21,
    /// An entry whose answer was lost counts as refused when it is sent again.
    LostAnswerIsRefusal = 22,
    /// An owner answers without asking whether its lease still holds.
    AnswersWithoutLease = 23,
    /// What was fetched ahead of a reader stays when the lock that covered it is called back.
    AheadUnlocked = 24,
    /// An MDT does not check that a name belongs to the stripe that is asked.
    StripeUnchecked = 25,
    /// What covers a directory is not called back when names pass between its stripes.
    StripesHeld = 26,
    /// Names pass, and the cursor stays.
    CursorStays = 27,
    /// Replies do not say which generation of the stripes they show.
    GenerationHidden = 28,
    /// Inodes do not learn that their directory has another inode.
    HomeForgotten = 29,
    /// Names and attributes stay in a mount when the locks that covered them are called back, and
    /// are handed out; only the kernel forgets the attributes.
    EntryUnlocked = 30,
    /// A client answers callbacks before it forgets.
    AckEarly = 31,
    /// An entry of a shared log is there before the blob that it names.
    PointerBeforeBlob = 32,
    /// A request of a client is taken although its limit is over; OSTs are told of evictions, so
    /// this alone must not be seen ([`Mutant::HARMLESS`]).
    LimitIgnored = 33,
    /// OSTs and MDTs do not look for the tickets of restricted clients.
    TicketNotChecked = 34,
    /// A target does a request again that comes once more after its client has seen the answer.
    LateCopyDone = 35,
    /// An MDT does not look whether an inode is in the realm of the client that names it.
    NoRealmCheck = 36,
    /// Another client is told of a change and cannot bring it back, because its author can. The
    /// author may die with the MDT.
    AuthorLives = 37,
    /// A target does what it is asked by sessions whose role may not send that.
    RoleIgnored = 38,
    /// A target takes a session, and requests of it, from any process.
    AnySession = 39,
    /// Keys that were revoked are taken.
    RevokedLives = 40,
    /// Connections stand on whose other end a withdrawn authority signed the key.
    WithdrawnStays = 41,
    /// A server does not look again at the certificates in a ticket by which a client resumes.
    OldTicket = 42,
    /// A token is good for any number of keys.
    TokenForEver = 43,
    /// A daemon at loopback takes connections of all users of the host.
    AnyUser = 44,
    /// An MDT takes back what a client kept for it without looking at the seal.
    SealIgnored = 45,
    /// Callers are the users that their clients say, whatever squash and nodemaps say.
    CallerBelieved = 46,
    /// New owners and ACLs are kept with the ids that a client of a nodemap sent.
    IdsAsSent = 47,
    /// Clients of a nodemap that may change nothing change what they want.
    ReadOnlyIgnored = 48,
    /// An owner renews its lease without a look whether its claim still stands.
    RenewsUnseen = 49,
    /// The tree of a fileset counts as marked when its topmost directory is.
    TreeUnmarked = 50,
    /// Connections and sessions stand whose keys are revoked; new ones are not let in.
    RevokedStays = 51,
}

impl Mutant {
    /// True if only operations over several MDTs, or directories on several, can show it.
    pub fn needs_mdts(self) -> bool {
        matches!(
            self,
            Mutant::PinnedShown
                | Mutant::FoundNotDurable
                | Mutant::CoordinatorFirst
                | Mutant::RecordedOnce
                | Mutant::AncestryFree
                | Mutant::StripeUnchecked
                | Mutant::StripesHeld
                | Mutant::CursorStays
                | Mutant::GenerationHidden
                | Mutant::HomeForgotten
        )
    }

    /// Mutants of shared logs and their owners, which the simulation of take-overs finds.
    pub const OF_TAKE_OVER: [(&str, Mutant); 6] = [
        ("append-without-epoch", Mutant::AppendWithoutEpoch),
        ("unanswered-is-durable", Mutant::UnansweredIsDurable),
        ("lost-answer-is-refusal", Mutant::LostAnswerIsRefusal),
        ("answers-without-lease", Mutant::AnswersWithoutLease),
        ("renews-unseen", Mutant::RenewsUnseen),
        ("pointer-before-blob", Mutant::PointerBeforeBlob),
    ];

    /// Mutants of clients, which the oracle finds (`./run mutant`).
    pub const OF_CLIENT: [(&str, Mutant); 3] = [
        ("ack-early", Mutant::AckEarly),
        ("ahead-unlocked", Mutant::AheadUnlocked),
        ("entry-unlocked", Mutant::EntryUnlocked),
    ];

    /// Mutants of servers, which tests with a hostile client find (`./run mutant`).
    pub const OF_SERVER: [(&str, Mutant); 13] = [
        ("ticket-not-checked", Mutant::TicketNotChecked),
        ("no-realm-check", Mutant::NoRealmCheck),
        ("role-ignored", Mutant::RoleIgnored),
        ("any-session", Mutant::AnySession),
        ("revoked-lives", Mutant::RevokedLives),
        ("withdrawn-stays", Mutant::WithdrawnStays),
        ("old-ticket", Mutant::OldTicket),
        ("token-for-ever", Mutant::TokenForEver),
        ("any-user", Mutant::AnyUser),
        ("seal-ignored", Mutant::SealIgnored),
        ("caller-believed", Mutant::CallerBelieved),
        ("ids-as-sent", Mutant::IdsAsSent),
        ("read-only-ignored", Mutant::ReadOnlyIgnored),
    ];

    /// What is done twice: one of two fences is open, and the judges must find nothing.
    pub const HARMLESS: [(&str, Mutant); 1] = [("limit-ignored", Mutant::LimitIgnored)];

    /// Mutants of whole clusters, with the names that tests choose them by.
    pub const ALL: [(&str, Mutant); 35] = [
        ("reply-apart", Mutant::ReplyApart),
        ("committed-too-high", Mutant::CommittedTooHigh),
        ("replay-disorder", Mutant::ReplayDisorder),
        ("lock-in-recovery", Mutant::LockInRecovery),
        ("tells-too-soon", Mutant::TellsTooSoon),
        ("sync-too-soon", Mutant::SyncTooSoon),
        ("write-before-kept", Mutant::WriteBeforeKept),
        ("unconfirmed-opens-forgotten", Mutant::UnconfirmedOpensForgotten),
        ("fence-ignored", Mutant::FenceIgnored),
        ("kept-dropped-early", Mutant::KeptDroppedEarly),
        ("redo-alone", Mutant::RedoAlone),
        ("author-lives", Mutant::AuthorLives),
        ("open-of-removed", Mutant::OpenOfRemoved),
        ("open-not-told", Mutant::OpenNotTold),
        ("name-not-found", Mutant::NameNotFound),
        ("pinned-shown", Mutant::PinnedShown),
        ("found-not-durable", Mutant::FoundNotDurable),
        ("coordinator-first", Mutant::CoordinatorFirst),
        ("recorded-once", Mutant::RecordedOnce),
        ("ancestry-free", Mutant::AncestryFree),
        ("ahead-unlocked", Mutant::AheadUnlocked),
        ("entry-unlocked", Mutant::EntryUnlocked),
        ("stripe-unchecked", Mutant::StripeUnchecked),
        ("stripes-held", Mutant::StripesHeld),
        ("cursor-stays", Mutant::CursorStays),
        ("generation-hidden", Mutant::GenerationHidden),
        ("home-forgotten", Mutant::HomeForgotten),
        ("late-copy-done", Mutant::LateCopyDone),
        ("ticket-not-checked", Mutant::TicketNotChecked),
        ("no-realm-check", Mutant::NoRealmCheck),
        ("tree-unmarked", Mutant::TreeUnmarked),
        ("role-ignored", Mutant::RoleIgnored),
        ("any-session", Mutant::AnySession),
        ("revoked-lives", Mutant::RevokedLives),
        ("revoked-stays", Mutant::RevokedStays),
    ];
}

#[cfg(feature = "mutants")]
static CHOSEN: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// This process makes this mistake from now on.
#[cfg(feature = "mutants")]
pub fn choose(mutant: Option<Mutant>) {
    CHOSEN.store(mutant.map_or(0, |mutant| mutant as u8), std::sync::atomic::Ordering::Relaxed);
}

/// True if this mistake shall be made.
#[cfg(feature = "mutants")]
pub fn is_mutant(mutant: Mutant) -> bool {
    CHOSEN.load(std::sync::atomic::Ordering::Relaxed) == mutant as u8
}

/// True if this mistake shall be made.
#[cfg(not(feature = "mutants"))]
pub const fn is_mutant(_: Mutant) -> bool {
    false
}
