%% SPDX-License-Identifier: MIT
%%
%% The rows of the benchmarks on Erlang's processes; bench/README.md defines each row.  The number
%% of workers is the number of schedulers, which build.sh's wrapper passes on to the emulator.
-module(beam).
-export([main/1]).

rows() ->
    [{"proc-spawn-exit", "process", 100000, fun spawn_exit/1},
     {"proc-request", "request", 100000, fun request/1},
     {"proc-ring-503", "hop", 200000, fun ring/1},
     {"spawn-join-1000", "task", 100000, fun spawn_exit/1},
     {"ping-pong", "round trip", 100000, fun request/1},
     {"ring-503", "hop", 200000, fun ring/1},
     {"sleep-1m", "task", 1000000, fun(Ops) -> sleep(Ops), 0 end},
     {"sleep-1m-late", "task", 1000000, fun sleep/1}].

main(["--list"]) ->
    [io:format("{\"row\":\"~s\",\"variant\":\"beam\",\"unit\":\"~s\",\"ops\":~b,\"workers\":1}~n",
               [Name, Unit, Ops]) || {Name, Unit, Ops, _} <- rows()];
main([Name, _Variant, OpsText, _Workers]) ->
    {Name, _, _, Run} = lists:keyfind(Name, 1, rows()),
    Ops = list_to_integer(OpsText),
    %% A process of its own: the one that starts the others has not the emulator's past to carry.
    {Pid, Ref} = spawn_monitor(fun() -> measure(Name, Ops, Run) end),
    receive {'DOWN', Ref, process, Pid, normal} -> ok end.

measure(Name, Ops, Run) ->
    Ops < 10 orelse Run(Ops div 10),
    {CpuBefore, _} = statistics(runtime),
    Start = erlang:monotonic_time(nanosecond),
    Counted = Run(Ops),
    Wall = erlang:monotonic_time(nanosecond) - Start,
    {CpuAfter, _} = statistics(runtime),
    {Ns, Cpu} = case Counted of
                    0 -> {Wall, (CpuAfter - CpuBefore) * 1000000};
                    _ -> {Counted, 0}
                end,
    io:format("{\"row\":\"~s\",\"variant\":\"beam\",\"ops\":~b,\"wall_ns\":~b,\"cpu_ns\":~b,"
              "\"rss_kb\":~s}~n", [Name, Ops, Ns, Cpu, peak_kb()]).

peak_kb() ->
    {ok, Status} = file:read_file("/proc/self/status"),
    {match, [Peak]} = re:run(Status, "VmHWM:\\s+(\\d+)", [{capture, all_but_first, list}]),
    Peak.

%% A batch is over when each of its processes has said so; it ends with that.
spawn_exit(Ops) when Ops =< 0 -> 0;
spawn_exit(Ops) ->
    Self = self(),
    [spawn(fun() -> Self ! done end) || _ <- lists:seq(1, 1000)],
    [receive done -> ok end || _ <- lists:seq(1, 1000)],
    spawn_exit(Ops - 1000).

request(Ops) ->
    Server = spawn_link(fun serve/0),
    Ops = request(Server, Ops, 0),
    Server ! stop,
    0.

request(_, 0, Value) -> Value;
request(Server, Left, Value) ->
    Server ! {self(), Value},
    receive {Server, Next} -> request(Server, Left - 1, Next) end.

serve() ->
    receive
        {From, Value} -> From ! {self(), Value + 1}, serve();
        stop -> ok
    end.

%% The token counts hops down; below 0 it goes round once more and ends the processes.
ring(Ops) ->
    Main = self(),
    Last = spawn_link(fun() -> receive {next, First} -> hop(First, Main) end end),
    First = lists:foldl(fun(_, Next) -> spawn_link(fun() -> hop(Next, Main) end) end,
                        Last, lists:seq(1, 502)),
    Last ! {next, First},
    First ! Ops,
    receive done -> ok end,
    First ! -1,
    receive done -> ok end,
    0.

hop(Next, Main) ->
    receive
        0 -> Main ! done, hop(Next, Main);
        Token when Token > 0 -> Next ! Token - 1, hop(Next, Main);
        -503 -> Main ! done;
        Token -> Next ! Token - 1
    end.

%% Gives the sum of what all processes overslept.
sleep(Ops) ->
    Self = self(),
    [spawn(fun() -> sleeper(Self, Number) end) || Number <- lists:seq(0, Ops - 1)],
    lists:sum([receive {late, Ns} -> Ns end || _ <- lists:seq(1, Ops)]).

sleeper(Main, Number) ->
    Span = 1 + Number * 7919 rem 1000,
    Start = erlang:monotonic_time(nanosecond),
    receive after Span -> ok end,
    Main ! {late, erlang:monotonic_time(nanosecond) - Start - Span * 1000000}.
