"""Experts that search with the emulator's save states."""

from random import Random

import numpy as np
import pytest

from pyro_options.data.collection import rollout
from pyro_options.envs import EXPERTS, make_atari
from pyro_options.envs.experts import GuidedSearchExpert, MontezumaExpert, PolicyExpert, SearchExpert
from pyro_options.envs.experts.exploration import Explorer
from pyro_options.envs.experts.followed_game import FollowedGame
from pyro_options.envs.experts.montezuma import GAME, load_plans, save_plans
from pyro_options.envs.ram_game import start_states

SMALL = dict(num_plans=3, horizon=10, commit=5)


def play(env, expert, num_steps, interfere=()):
    """The actions of an expert and the total reward; at steps of ``interfere`` action 1 is taken instead."""
    observation, memory, actions, total = env.reset(seed=0)[0], None, [], 0.0
    for t in range(num_steps):
        action, memory = expert.predict(observation, memory, np.array([t == 0]))
        actions.append(int(action))
        observation, reward, *_ = env.step(1 if t in interfere else int(action))
        total += reward
    return actions, total


def test_the_whole_state_is_found_from_ram():
    env, followed = make_atari("Freeway"), FollowedGame("Freeway")
    state = followed.start(env.reset(seed=0)[0].tobytes())
    for taken in (1, 1, 0, 2, 1):
        state, action = followed.follow(state, env.step(taken)[0].tobytes(), expected=taken)
        assert action == taken
    ram = env.step(1)[0].tobytes()
    state, action = followed.follow(state, ram, expected=0)
    followed.emulator.restoreState(state)
    assert action == 1 and followed.ram() == ram


def test_search_beats_random_play():
    game = "Asterix"
    searched = rollout(make_atari(game), SearchExpert(game), 1, 150, 0, packed=True)
    random = rollout(make_atari(game), lambda ram: 0, 4, 150, 0, epsilon=1.0, packed=True)
    assert float(searched.returns[0]) > 2 * float(random.returns.mean())


def test_search_is_a_function_of_the_game_and_the_seed():
    expert = SearchExpert("SpaceInvaders", **SMALL)
    env = make_atari("SpaceInvaders")
    once = play(env, expert, 20)
    assert play(env, expert, 20) == once == play(env, SearchExpert("SpaceInvaders", **SMALL), 20)
    assert play(env, SearchExpert("SpaceInvaders", seed=1, **SMALL), 20)[0] != once[0]


def test_search_goes_on_from_a_random_action():
    """After an action that was not its own it makes a new plan, so its actions change."""
    expert, env = SearchExpert("Freeway", **SMALL), make_atari("Freeway")
    planned = play(env, expert, 15)[0]
    at = next(t for t in range(15) if planned[t] != 1)
    disturbed = play(env, expert, 15, interfere=(at,))[0]
    assert disturbed[: at + 1] == planned[: at + 1] and disturbed[at + 1 :] != planned[at + 1 :]


def test_a_plan_that_loses_a_life_is_worse_than_any_that_does_not():
    expert, state = SearchExpert("Breakout"), start_states("Breakout")[0]
    plan = (3, 1) * 60
    lost = next(t for t in range(1, 121) if not expert._value(state, plan[:t])[0])
    assert expert._value(state, plan[: lost - 1]) > expert._value(state, plan) and lost > 5


@pytest.mark.parametrize("survivor, num_tried, chosen", [(0, 2, 0), (1, 2, 1), (4, 5, 4), (9, 7, 0)])
def test_more_plans_are_drawn_until_one_survives(monkeypatch, survivor, num_tried, chosen):
    expert, tried = SearchExpert("Breakout", num_plans=2, max_plans=7), []
    monkeypatch.setattr(expert, "_value", lambda s, plan: (tried.append(plan) or len(tried) > survivor, 0.0))
    action, memory = expert.plan(start_states("Breakout")[0], (3, 3), b"ram")
    assert len(tried) == num_tried and memory.plan == tried[chosen]
    assert action == memory.plan[0] and tried[0][:2] == (3, 3)


def test_the_score_of_a_plan_is_discounted():
    expert, state = SearchExpert("Alien", gamma=0.9), start_states("Alien")[0]
    expert.followed.emulator.restoreState(state)
    rewards = [expert.followed.act(3) for _ in range(30)]
    value = sum(0.9**t * reward for t, reward in enumerate(rewards))
    assert 0 < value < sum(rewards) and expert._value(state, (3,) * 30) == (True, pytest.approx(value))


def test_a_search_needs_the_states_of_make_atari():
    expert = SearchExpert("SpaceInvaders", **SMALL)
    env = make_atari("SpaceInvaders")
    observation, memory = env.reset(seed=0)[0], None
    _, memory = expert.predict(observation, memory, np.array([True]))
    with pytest.raises(ValueError, match=r"RAM of a start of SpaceInvaders.*make_atari"):
        expert.predict(np.zeros(128, np.uint8), None, np.array([True]))
    with pytest.raises(ValueError, match=r"RAM that an action of SpaceInvaders leads to.*frame_skip"):
        expert.predict(np.zeros(128, np.uint8), memory, np.array([False]))
    with pytest.raises(ValueError, match=r"commit in \[1, 3\]"):
        SearchExpert("SpaceInvaders", horizon=3, commit=4)


def test_a_guided_search_beats_its_network():
    game, plays = "Alien", {"max_steps": 200, "seed": 0, "packed": True}
    guided = rollout(make_atari(game), GuidedSearchExpert(game), 2, **plays)
    alone = rollout(make_atari(game), PolicyExpert(game), 6, **plays)
    assert float(guided.returns.mean()) > 1.3 * float(alone.returns.mean())


def test_plans_of_a_guided_search_are_games_of_the_network():
    expert, start = GuidedSearchExpert("Asterix", temperature=1e-4, max_plans=None, **SMALL), start_states("Asterix")[0]
    env, network = make_atari("Asterix"), PolicyExpert("Asterix")
    actions, _ = play(env, network, 10)
    _, memory = expert.plan(expert.followed.start(env.reset(seed=0)[0].tobytes()), (), b"seen")
    assert list(memory.plan) == actions  # the most probable ones
    warm = GuidedSearchExpert("Asterix", **SMALL)
    plans = [warm._candidate(start, (4, 4), Random(seed)) for seed in range(20)]
    assert all(plan[:2] == (4, 4) for plan, _ in plans) and len({plan for plan, _ in plans}) > 5
    for plan, value in plans:
        assert value == pytest.approx(warm._value(start, plan)) and (len(plan) == 10 or not value[0])


def test_a_guided_search_needs_a_network_of_the_game():
    with pytest.raises(ValueError, match=r"a network of Alien but got '?Asterix"):
        GuidedSearchExpert("Alien", network=PolicyExpert("Asterix"))
    with pytest.raises(ValueError, match="the frame_skip of the network but got 2"):
        GuidedSearchExpert("Alien", 2, network=PolicyExpert("Alien"))
    with pytest.raises(ValueError, match="temperature > 0"):
        GuidedSearchExpert("Alien", temperature=0.0)
    with pytest.raises(ValueError, match="game to be one of"):
        GuidedSearchExpert("Pong")


def score_cell(ram):
    """In Freeway: how high the chicken is."""
    return int(ram[14]) // 4


def test_exploration_finds_and_shortens_a_way():
    """Freeway gives its first point on the other side of the road."""
    start = start_states("Freeway")[0]
    explorer = Explorer("Freeway", score_cell)
    (found,) = explorer.explore(start, 1, 20_000)
    assert found.score == 1 and explorer.score(start, found.actions) == 1
    short = explorer.shortened(start, found.actions)
    assert explorer.score(start, short) == 1 and len(short) <= len(found.actions)
    assert explorer.explore(start, 1, 20_000) == [found]
    assert not explorer.explore(start, 1, 5)


def test_plans_lead_to_the_key_and_the_door():
    plans, starts = load_plans(), start_states(GAME)
    explorer = Explorer(GAME, lambda ram: 0)
    start = min(plans, key=lambda one: len(plans[one]))
    assert explorer.score(starts[start], plans[start]) == 400
    assert all(0 <= action < 18 for plan in plans.values() for action in plan)


def test_the_plan_is_played_and_taken_up_again():
    plans = load_plans()
    start = min(plans, key=lambda one: len(plans[one]))
    expert = MontezumaExpert(plans={start: plans[start]})
    explorer, state = Explorer(GAME, lambda ram: 0), start_states(GAME)[start]
    explorer.emulator.restoreState(state)
    memory, total = None, 0.0
    for t in range(len(plans[start]) + 30):
        (action,), memory = expert.predict(explorer.emulator.getRAM()[None], memory, np.array([t == 0]))
        assert t >= 10 or action == plans[start][t]
        total += explorer.emulator.act(explorer.actions[1 if t == 10 else action])  # a jump
    assert total >= 100 and explorer.emulator.lives() == 6


def test_plans_are_saved_without_pickle(tmp_path):
    plans = {4: (1, 2, 3), 0: (17, 0)}
    save_plans(tmp_path / "plans.safetensors", plans)
    assert load_plans(tmp_path / "plans.safetensors") == plans
    with pytest.raises(ValueError, match="frame_skip=4, for which the plans were made"):
        EXPERTS[GAME](frame_skip=1)
