"""Transcripts: a command, `----`, and exactly what it did. The texts lie in `transcripts/`.

cluster a b c [learners d]  peers with this configuration from the beginning
join d                      a new peer that knows nobody
patience a                  the election timeout of a ends now
propose a text / change a voter|learner|remove d / confirm a 7 / transfer a b / compact a
work                        everybody does its batches; what they say is printed, messages are kept
deliver                     what is under way arrives, in order; who is cut off hears nothing
settle                      work and deliver until all is quiet
quietly                     the same without a word
time 900                    so many milliseconds pass, and nobody looks at the clock
tick a                      a does
cut a ... / heal / crash a / restart a / show
"""

from __future__ import annotations

from strogoff.cluster.raft.interface import ChangePending, NotLeader, Ready, Rejected, Settings
from strogoff.cluster.raft.messages import Change, Entry, HardState, Kind, Message, MessageKind, decode_change

from .raft_harness import RaftHarness, saved_voters

USED = {
    MessageKind.PREVOTE: "last",
    MessageKind.VOTE: "last",
    MessageKind.APPEND: "append",
    MessageKind.HEARTBEAT: "heartbeat",
}


def entry_text(entry: Entry) -> str:
    """`5/2 "x"`: index, term, content."""
    if entry.kind == Kind.CHANGE:
        change = decode_change(entry.data)
        return f"{entry.index}/{entry.term} {change.action} {change.peer}"
    return f'{entry.index}/{entry.term} "{entry.data.decode()}"' if entry.data else f"{entry.index}/{entry.term} empty"


def message_text(message: Message) -> str:
    """`a->b APPEND term 2 after 4/1 commit 4 [5/2 "x"]`."""
    text = f"{message.sender}->{message.to} {message.kind.name} term {message.term}"
    match USED.get(message.kind):
        case "last":
            text += f" last {message.index}/{message.log_term}" + (" forced" if message.force else "")
        case "append":
            text += f" after {message.index}/{message.log_term} commit {message.commit}"
            text += f" [{', '.join(map(entry_text, message.entries))}]"
        case "heartbeat":
            text += f" commit {message.commit} round {message.round}"
    if message.kind is MessageKind.HEARTBEAT_REPLY:
        text += f" round {message.round}"
    if message.snapshot is not None:
        text += f" snapshot {message.snapshot.index}/{message.snapshot.term}"
    if message.kind is MessageKind.APPEND_REPLY and not message.reject:
        text += f" agreed {message.index}"
    elif message.kind is MessageKind.APPEND_REPLY:
        text += f" refused {message.index}, perhaps {message.hint}/{message.log_term}"
    elif message.reject:
        text += " refused"
    return text


def ready_text(name: str, ready: Ready) -> list[str]:
    """A batch, one line per part."""
    lines = []
    if ready.hard:
        hard: HardState = ready.hard
        lines.append(f"{name} writes term {hard.term} vote {hard.vote or '-'} commit {hard.commit}")
    if ready.snapshot:
        lines.append(f"{name} restores snapshot {ready.snapshot.index}/{ready.snapshot.term}")
    if ready.compacted:
        lines.append(f"{name} compacts to {ready.compacted.index}/{ready.compacted.term}")
    if ready.entries:
        lines.append(f"{name} writes {', '.join(map(entry_text, ready.entries))}")
    lines += [message_text(message) for message in ready.messages]
    if ready.committed:
        lines.append(f"{name} applies {', '.join(map(entry_text, ready.committed))}")
    if ready.confirmed:
        lines.append(f"{name} confirms {', '.join(map(str, ready.confirmed))}")
    return lines


class Script(RaftHarness):
    """Runs commands; each returns its lines."""

    def __init__(self) -> None:
        super().__init__(settings=Settings(tail=0))

    def run_command(self, line: str) -> list[str]:
        name, *words = line.split()
        try:
            return getattr(self, f"do_{name}")(*words) or []
        except (NotLeader, ChangePending, Rejected) as error:
            return [f"{type(error).__name__}: {error}"]

    def do_cluster(self, *words: str) -> None:
        names = [word for word in words if word != "learners"]
        count = words.index("learners") if "learners" in words else len(words)
        for name in names:
            self.add(name, saved_voters(*names[:count], learners=tuple(names[count:])))

    def do_join(self, name: str) -> None:
        self.add(name)

    def do_patience(self, name: str) -> None:
        self[name]._election_at_ms = self.now_ms
        self[name].tick(self.now_ms)

    def do_propose(self, name: str, text: str) -> None:
        self[name].propose(text.encode())

    def do_change(self, name: str, action: str, peer: str) -> None:
        self[name].change(Change(action, peer))  # type: ignore[arg-type]

    def do_confirm(self, name: str, ticket: str) -> None:
        self[name].confirm(int(ticket))

    def do_transfer(self, name: str, peer: str) -> None:
        self[name].transfer(peer)

    def do_compact(self, name: str) -> None:
        self[name].compact(self[name].applied_index, self.peers[name].machine.snapshot())

    def do_work(self) -> list[str]:
        return [
            line
            for name, peer in self.peers.items()
            if peer.up
            for ready in peer.work()
            for line in ready_text(name, ready)
        ]

    def do_deliver(self) -> None:
        flying, self.flying = self.flying, []
        for message in flying:
            self.deliver(message)

    def do_settle(self) -> list[str]:
        lines = []
        while found := self.do_work():
            lines += found
            self.do_deliver()
        return lines

    def do_quietly(self) -> None:
        self.settle()

    def do_cut(self, *names: str) -> None:
        self.isolate(*names)

    def do_heal(self) -> None:
        self.heal()

    def do_crash(self, name: str) -> None:
        self.peers[name].crash()

    def do_restart(self, name: str) -> None:
        self.peers[name].restart()

    def do_time(self, duration_ms: str) -> None:
        self.now_ms += float(duration_ms)

    def do_tick(self, name: str) -> None:
        self[name].tick(self.now_ms)

    def do_show(self) -> list[str]:
        lines = []
        for name, peer in self.peers.items():
            raft = peer.raft
            if not peer.up:
                lines.append(f"{name}: down")
                continue
            who = f"{name}: {raft.role} term {raft.term} leader {raft.leader or '-'} commit {raft.commit_index}"
            log = " ".join(f"{index}/{term}" for index, term in self.log(name))
            who += f" log {log or 'empty'} voters {','.join(raft.configuration.voters)}"
            lines.append(
                who + (f" learners {','.join(raft.configuration.learners)}" * bool(raft.configuration.learners))
            )
        return lines


def replay(text: str) -> str:
    """Returns the transcript with the present outputs; comments and commands are kept."""
    script, out = Script(), []
    for block in text.strip().split("\n\n"):
        commands = block.split("----")[0].strip().splitlines()
        result = []
        for line in commands:
            if not line.startswith("#"):
                result += script.run_command(line)
        out.append("\n".join([*commands, "----", *(result or ["ok"])]))
    return "\n\n".join(out) + "\n"
