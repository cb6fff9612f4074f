"""Toys of five kinds, each instance with its own proportions, made of balls, boxes and tubes.

A toy looks along x, has its left at y, and stands on z = 0. Lengths are relative: a toy is scaled
when it is done.
"""

from collections.abc import Callable

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray

from ccml.datasets._scene import Solid

Toy = list[Solid]
Point = NDArray[np.float64]

_LEFT_RIGHT = (1, -1)


def make_toy(category: int, rng: RandomState) -> Toy:
    """Draw an instance of a category, put by hand on the middle of the turntable: nearly there."""
    solids = _MAKERS[category](rng)
    corners = np.concatenate([solid.corners() for solid in solids])
    low, high = corners.min(axis=0), corners.max(axis=0)
    middle = np.append((low + high)[:2] / 2, low[2])
    size = rng.uniform(0.65, 1) / np.linalg.norm((high - low) / 2)
    place = _point(rng.uniform(-0.1, 0.1), rng.uniform(-0.1, 0.1), 0)
    turn = size * about_z(rng.uniform(-10, 10))
    return [solid.moved(turn, place - turn @ middle) for solid in solids]


def animal(rng: RandomState) -> Toy:
    """Make four legs, a neck, a head: from a pig to a giraffe."""
    length, girth = rng.uniform(0.8, 1.3), rng.uniform(0.26, 0.5)
    leg, leg_width = rng.uniform(0.35, 1.0), rng.uniform(0.07, 0.15)
    neck, neck_angle = rng.uniform(0.15, 0.9), rng.uniform(0.3, 1.2)
    head, tail = rng.uniform(0.17, 0.3), rng.uniform(0.25, 0.8)
    spine = leg + 0.75 * girth
    toy = [_ball((0, 0, spine), (length, 0.85 * girth, girth))]
    for side in _LEFT_RIGHT:
        for end in (0.62, -0.62):
            hip = _point(end * length, 0.55 * girth * side, spine)
            foot = hip + _point(rng.uniform(-0.12, 0.12), 0, -spine)
            toy.append(_limb(hip, foot, leg_width))
    chest = _point(0.75 * length, 0, spine + 0.3 * girth)
    nape = chest + neck * _point(np.cos(neck_angle), 0, np.sin(neck_angle))
    toy.append(_limb(chest - 0.1, nape, rng.uniform(0.12, 0.24)))
    toy.append(_ball(nape + _point(0.6 * head, 0, 0), (1.5 * head, 0.75 * head, 0.85 * head)))
    crown = nape + _point(0, 0, 0.6 * head)
    if rng.random() < 0.5:  # ears, or horns
        ear, ear_width = rng.uniform(0.15, 0.25), 0.06
    else:
        ear, ear_width = rng.uniform(0.3, 0.45), 0.035
    for side in _LEFT_RIGHT:
        tip = crown + ear * _point(-0.2, 0.6 * side, 0.8)
        toy.append(_limb(crown, tip, ear_width))
    if rng.random() < 0.3:  # a trunk
        nose = nape + _point(1.8 * head, 0, 0)
        toy.append(_limb(nose, nose + _point(0.2, 0, -0.7 * spine), 0.08))
    rump = _point(-0.95 * length, 0, spine + 0.2 * girth)
    toy.append(_limb(rump, rump + tail * _point(-0.7, 0, rng.uniform(-0.9, 0.7)), 0.05))
    return toy


def human(rng: RandomState) -> Toy:
    """Make a figure on a stand, in some pose, perhaps with a hat, a pack or a stick."""
    legs, torso = rng.uniform(0.75, 1.05), rng.uniform(0.6, 0.8)
    shoulders, depth = rng.uniform(0.24, 0.4), rng.uniform(0.13, 0.24)
    head, limb = rng.uniform(0.15, 0.22), rng.uniform(0.07, 0.12)
    waist, neck = legs, legs + torso
    toy = [
        _tube((0, 0, 0.025), (0.42, 0.36, 0.025)),
        _ball((0, 0, waist + 0.52 * torso), (depth, shoulders, 0.6 * torso)),
        _ball((0, 0, waist), (depth, 0.8 * shoulders, 0.22)),
        _ball((0, 0, neck + 0.9 * head), (head, 0.9 * head, 1.15 * head)),
    ]
    stride = rng.uniform(0, 0.35)
    for side in _LEFT_RIGHT:
        hip = _point(0, 0.5 * shoulders * side, waist)
        foot = _point(stride * side, hip[1] * rng.uniform(0.9, 1.6), 0.06)
        toy += [_limb(hip, foot, 1.2 * limb), _ball(foot + _point(0.08, 0, 0), (0.16, limb, 0.07))]
        shoulder = _point(0, 0.95 * shoulders * side, neck - 0.12)
        swing, raise_, upper = rng.uniform(-0.7, 1.5), rng.uniform(0.05, 0.8), 0.42 * torso
        down = _point(np.sin(swing), side * raise_, -np.cos(swing))
        elbow = shoulder + upper * down / np.linalg.norm(down)
        bend = _point(1.0, side * rng.uniform(-0.5, 0.5), rng.uniform(-1.0, 1.0))
        hand = elbow + upper * bend / np.linalg.norm(bend)
        toy += [_limb(shoulder, elbow, limb), _limb(elbow, hand, 0.85 * limb)]
        if side == 1 and rng.random() < 0.5:  # a stick in the left hand
            toy.append(_limb(hand - _point(0.3, 0, 0.3), hand + _point(0.3, 0, 0.3), 0.035))
    if rng.random() < 0.5:  # a hat
        toy += [
            _tube((0, 0, neck + 1.5 * head), (1.6 * head, 1.6 * head, 0.02)),
            _tube((0, 0, neck + 1.9 * head), (0.9 * head, 0.9 * head, 0.5 * head)),
        ]
    if rng.random() < 0.4:  # a pack
        toy.append(_box((-1.2 * depth, 0, neck - 0.3), (0.12, 0.7 * shoulders, 0.22)))
    return toy


def aeroplane(rng: RandomState) -> Toy:
    """Make a fuselage with wings and a tail: propeller plane, biplane, jet or airliner."""
    girth, span = rng.uniform(0.1, 0.2), rng.uniform(0.6, 1.15)
    chord, sweep = rng.uniform(0.16, 0.38), rng.uniform(-0.05, 0.75)
    height = girth + rng.uniform(0.12, 0.3)
    wing_x, wing_z = rng.uniform(-0.1, 0.25), height + girth * rng.uniform(-0.7, 0.9)
    n_wings = 2 if rng.random() < 0.25 else 1
    toy = [_ball((0, 0, height), (1.1, girth, girth))]
    for storey in range(n_wings):
        z = wing_z + 0.4 * storey
        toy += [
            _wing((wing_x, 0, z), (chord, span * side, 0.028), sweep, rng.uniform(0, 0.1))
            for side in _LEFT_RIGHT
        ]
    if n_wings == 2:
        for side in _LEFT_RIGHT:
            foot = _point(wing_x - 0.6 * span * sweep, 0.6 * span * side, wing_z)
            toy.append(_limb(foot, foot + _point(0, 0, 0.4), 0.03))
    tail, fin = rng.uniform(0.22, 0.45), rng.uniform(0.25, 0.5)
    tail_z = height + (0.9 * fin if rng.random() < 0.3 else 0.2 * girth)
    toy += [_wing((-0.85, 0, tail_z), (0.14, tail * side, 0.022), 0.35, 0) for side in _LEFT_RIGHT]
    slant = np.array([[0.16, 0, -0.5 * fin / 2], [0, 0.022, 0], [0, 0, fin / 2]])
    toy.append(Solid(0, slant, _point(-0.88, 0, height + fin / 2)))
    if rng.random() < 0.5:  # a propeller
        toy.append(_tube((1.1, 0, height), (0.04, 0.035, 0.35 + girth), about_x=True))
        toy.append(_box((1.12, 0, height), (0.02, 0.04, 0.3 + girth)))
    else:  # engines under the wings
        for side in _LEFT_RIGHT:
            y = rng.uniform(0.3, 0.6) * span * side
            centre = (wing_x - abs(y) * sweep + 0.1, y, wing_z - 0.1)
            toy.append(_tube(centre, (0.075, 0.075, 0.2), about_x=True))
    if rng.random() < 0.6:  # a cockpit
        toy.append(_ball((0.35, 0, height + 0.8 * girth), (0.3, 0.7 * girth, 0.7 * girth)))
    for side in _LEFT_RIGHT:
        toy.append(_wheel((0.1, 0.2 * side, 0.07), 0.07, 0.03))
    toy.append(_wheel((0.75, 0, 0.07), 0.07, 0.03))
    return toy


def truck(rng: RandomState) -> Toy:
    """Make a cab and a load: box, tank, flat bed or tipper."""
    width, wheel = rng.uniform(0.3, 0.42), rng.uniform(0.13, 0.2)
    cab, cab_height = rng.uniform(0.22, 0.34), rng.uniform(0.42, 0.62)
    load, load_height = rng.uniform(0.6, 1.0), rng.uniform(0.35, 0.7)
    floor, bonnet = wheel + 0.08, rng.uniform(0, 0.3)
    toy = [_box((0, 0, floor), (load + cab, 0.8 * width, 0.05))]
    cab_x = load
    toy.append(_box((cab_x, 0, floor + cab_height), (cab, width, cab_height)))
    if bonnet > 0.12:
        toy.append(_box((cab_x + cab + bonnet, 0, floor + 0.22), (bonnet, 0.85 * width, 0.22)))
    load_x, top = -cab, floor + 0.05
    kind = rng.randint(4)
    if kind == 0:
        toy.append(_box((load_x, 0, top + load_height), (load, width, load_height)))
    elif kind == 1:
        radius = min(width, 0.75 * load_height)
        toy.append(_tube((load_x, 0, top + radius), (radius, radius, load), about_x=True))
    elif kind == 2:
        board = rng.uniform(0.08, 0.2)
        toy += [
            _box((load_x, width * side, top + board), (load, 0.03, board)) for side in _LEFT_RIGHT
        ]
        toy.append(_box((load_x - load, 0, top + board), (0.03, width, board)))
        toy.append(_box((load_x + 0.1 * load, 0, top + 0.1), (0.5 * load, 0.6 * width, 0.1)))
    else:
        tilt = rng.uniform(0.15, 0.5)
        turn = _about_y(tilt)
        tray = _box((0, 0, 0), (load, width, 0.45 * load_height))
        toy.append(tray.moved(turn, (load_x, 0, top + 0.45 * load_height + load * np.sin(tilt))))
    axles = [cab_x + (bonnet if bonnet > 0.12 else 0), load_x - 0.6 * load]
    axles += [axles[1] + 2.3 * wheel] if rng.random() < 0.6 else []
    toy += [_wheel((x, width * side, wheel), wheel, 0.06) for x in axles for side in _LEFT_RIGHT]
    return toy


def car(rng: RandomState) -> Toy:
    """Make a low body with a slanted cabin: saloon, sports car, estate, or open."""
    length, width = rng.uniform(0.85, 1.1), rng.uniform(0.36, 0.46)
    wheel, body = rng.uniform(0.13, 0.19), rng.uniform(0.12, 0.2)
    cabin, cabin_height = rng.uniform(0.35, 0.6), rng.uniform(0.11, 0.2)
    cabin_x, floor = rng.uniform(-0.3, 0.05), 0.7 * wheel
    waist = floor + 2 * body
    toy = [_box((0, 0, floor + body), (length, width, body))]
    toy += [
        _tube(
            (end * length, 0, floor + body), (body, rng.uniform(0.5, 1) * body, width), across=True
        )
        for end in (1, -1)
    ]
    kind = rng.randint(3)
    if kind == 0:  # a roof of slanted boxes
        slope = rng.uniform(0.1, 0.28)
        for end in (1, -1):
            lean = np.array(
                [[0.6 * cabin, 0, -end * slope], [0, 0.88 * width, 0], [0, 0, cabin_height]]
            )
            centre = _point(cabin_x + end * 0.4 * cabin, 0, waist + cabin_height)
            toy.append(Solid(0, lean, centre))
    elif kind == 1:  # a rounded roof
        toy.append(_ball((cabin_x, 0, waist), (1.25 * cabin, 0.9 * width, 2.1 * cabin_height)))
    else:  # open, with a windscreen and seats
        screen = np.array([[0.02, 0, -0.12], [0, 0.85 * width, 0], [0, 0, cabin_height]])
        toy.append(Solid(0, screen, _point(cabin_x + cabin, 0, waist + cabin_height)))
        toy += [
            _box((cabin_x, 0.45 * width * side, waist + 0.1), (0.08, 0.12, 0.12))
            for side in _LEFT_RIGHT
        ]
    if rng.random() < 0.35:  # a spoiler
        toy.append(_box((-0.95 * length, 0, waist + 0.14), (0.08, 0.9 * width, 0.02)))
        toy += [
            _box((-0.95 * length, 0.6 * width * side, waist + 0.06), (0.03, 0.02, 0.08))
            for side in _LEFT_RIGHT
        ]
    toy += [
        _wheel((end * 0.62 * length, width * side, wheel), wheel, 0.06)
        for end in (1, -1)
        for side in _LEFT_RIGHT
    ]
    return toy


_MAKERS: tuple[Callable[[RandomState], Toy], ...] = (animal, human, aeroplane, truck, car)


def _point(x: float, y: float, z: float) -> Point:
    return np.array([x, y, z], dtype=np.float64)


def _ball(centre: ArrayLike, radii: ArrayLike) -> Solid:
    return Solid(3, np.diag(radii), np.array(centre, dtype=float))


def _box(centre: ArrayLike, half_sides: ArrayLike) -> Solid:
    return Solid(0, np.diag(half_sides), np.array(centre, dtype=float))


def _tube(
    centre: ArrayLike, radii_and_half_length: ArrayLike, *, about_x: bool = False,
    across: bool = False,
) -> Solid:  # fmt: skip
    """Return an upright tube, or one along x, or one along y."""
    matrix = np.diag(np.array(radii_and_half_length, dtype=float))
    turned = matrix[[2, 1, 0]] if about_x else matrix[[0, 2, 1]] if across else matrix
    return Solid(2, turned, np.array(centre, dtype=float))


def _wheel(centre: ArrayLike, radius: float, half_width: float) -> Solid:
    return _tube(centre, (radius, radius, half_width), across=True)


def _limb(start: Point, end: Point, radius: float) -> Solid:
    """Return a long ball from one point to another, a little beyond both."""
    axis = (end - start) / 2
    length = np.linalg.norm(axis)
    along = axis / length
    aside = np.cross(along, [0, 1, 0] if abs(along[1]) < 0.9 else [1, 0, 0])
    aside /= np.linalg.norm(aside)
    frame = np.column_stack([aside, np.cross(along, aside), along])
    return Solid(3, frame * [radius, radius, 1.12 * length], (start + end) / 2)


def _wing(root: ArrayLike, sizes: tuple[float, float, float], sweep: float, rise: float) -> Solid:
    """Return a board from ``root`` to the side, its tip ``sweep`` back and ``rise`` up per span."""
    chord, span, thickness = sizes
    half = span / 2
    matrix = np.array(
        [[chord, -abs(half) * sweep, 0], [0, half, 0], [0, abs(half) * rise, thickness]]
    )
    return Solid(0, matrix, np.array(root, dtype=float) + matrix[:, 1])


def about_z(degrees: float) -> NDArray[np.float64]:
    """Return the matrix of a turn to the left."""
    cos, sin = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    return np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])


def _about_y(angle: float) -> NDArray[np.float64]:
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array([[cos, 0, -sin], [0, 1, 0], [sin, 0, cos]])
