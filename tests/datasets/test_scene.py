"""The renderer against what a solid is, point by point."""

import numpy as np
import pytest

from ccml.datasets._scene import Scene, Solid, _inside
from ccml.datasets._toys import make_toy

KINDS = {"box": 0, "tube": 2, "ball": 3}
FRONT = np.array([[0.0, 0.0, -1.0]]).T  # a ray straight down
UP = np.array([[0.0, 0.0, 1.0]], dtype=np.float32)


def contains(round_axes, points):
    """Whether points, (3, n), are in the unit solid."""
    in_disc = (points[:round_axes] ** 2).sum(axis=0) <= 1
    return in_disc & (np.abs(points[round_axes:]) <= 1).all(axis=0)


@pytest.mark.parametrize("round_axes", KINDS.values(), ids=KINDS)
def test_a_ray_is_inside_where_its_points_are(round_axes):
    rng = np.random.RandomState(0)
    start = rng.normal(size=(3, 300))
    step = rng.normal(size=(3, 300))
    enter, leave = _inside(round_axes, start.astype(np.float32), step.astype(np.float32))
    places = np.linspace(-6, 6, 2001)
    points = start[:, :, None] + places * step[:, :, None]
    found = contains(round_axes, points.reshape(3, -1)).reshape(300, -1)
    expected = (places > enter[:, None]) & (places < leave[:, None])
    near_a_border = np.minimum(
        np.abs(places - enter[:, None]), np.abs(places - leave[:, None])
    ) < 1e-3 * (1 + np.abs(places))  # fmt: skip
    assert 0.02 < found.mean() < 0.5
    assert (found == expected)[~near_a_border].all()


@pytest.mark.parametrize("round_axes", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("axis", range(3))
def test_rays_along_an_axis(round_axes, axis):
    """Parallel to faces, or to a tube: divisions by 0 that mean something."""
    step = np.zeros((3, 2), dtype=np.float32)
    step[axis] = 1
    start = np.zeros((3, 2), dtype=np.float32)
    start[axis] = -5
    start[(axis + 1) % 3, 1] = 2  # the second ray passes by
    enter, leave = _inside(round_axes, start, step)
    assert enter[0] == pytest.approx(4)
    assert leave[0] == pytest.approx(6)
    assert not enter[1] < leave[1]


def light(scene, eye, rays, lamps=UP):
    brightness = np.eye(len(lamps))
    return scene.light(np.array(eye, dtype=float), rays.astype(np.float32), lamps, brightness)


class TestLight:
    """From above on things at the origin; ambient light is 0.12, the ground reflects 0.65."""

    def test_the_ground(self):
        assert light(Scene([]), (3, 2, 5), FRONT) == pytest.approx(0.65 * 1.12)

    @pytest.mark.parametrize("round_axes", KINDS.values(), ids=KINDS)
    def test_the_top_of_a_solid(self, round_axes):
        scene = Scene([Solid(round_axes, np.eye(3), np.array([0.0, 0, 1]))])
        assert light(scene, (0, 0, 5), FRONT) == pytest.approx(1.12)

    def test_a_side_is_lit_at_its_angle(self):
        scene = Scene([Solid(3, np.eye(3), np.array([0.0, 0, 1]))])
        ray = np.array([[-1.0, 0, -1]]).T  # to the ball's 45 degrees
        assert light(scene, (3, 0, 4), ray) == pytest.approx(0.12 + np.sqrt(0.5))

    def test_a_stretched_ball_has_the_normal_of_an_ellipsoid(self):
        scene = Scene([Solid(3, np.diag([2.0, 1, 1]), np.array([0.0, 0, 1]))])
        x = 1.0
        z = 1 + np.sqrt(1 - x**2 / 4)
        normal = np.array([x / 4, 0, z - 1])
        assert light(scene, (x, 0, 5), FRONT) == pytest.approx(
            0.12 + normal[2] / np.linalg.norm(normal), abs=1e-3
        )

    def test_a_turned_box_has_turned_faces(self):
        half = np.sqrt(0.5)
        turn = np.array([[half, 0, -half], [0, 1, 0], [half, 0, half]])
        scene = Scene([Solid(0, turn, np.array([0.0, 0, 2]))])
        assert light(scene, (0.5, 0, 5), FRONT) == pytest.approx(0.12 + half, abs=1e-3)

    def test_the_side_of_a_tube(self):
        along_x = np.eye(3)[[2, 1, 0]]
        scene = Scene([Solid(2, along_x, np.array([0.0, 0, 1]))])
        y = 0.6
        assert light(scene, (0.3, y, 5), FRONT) == pytest.approx(0.12 + 0.8, abs=1e-3)

    def test_a_shadow(self):
        scene = Scene([Solid(0, np.diag([1, 1, 0.1]), np.array([0.0, 0, 2]))])
        lamps = np.array([[0.0, 0, 1], [0.6, 0, 0.8]], dtype=np.float32)
        ray = np.array([[-1.0, 0, -0.5]]).T  # below the board, to the ground at (0, 0, 0)
        bright = light(scene, (2, 0, 1), ray, lamps)
        assert bright[0] == pytest.approx(0.65 * 0.12)  # it is in the board's shadow
        assert bright[1] == pytest.approx(0.65 * (0.12 + 0.8))  # but not from the side

    def test_the_nearer_solid_is_seen(self):
        low = Solid(0, np.diag([1, 1, 0.1]), np.array([0.0, 0, 0.1]))
        high = Solid(3, np.eye(3) * 0.5, np.array([0.0, 0, 1]))
        for solids in ([low, high], [high, low]):
            bright = light(Scene(solids), (0.3, 0, 5), FRONT)
            assert bright == pytest.approx(0.12 + 0.8, abs=1e-3)


@pytest.mark.parametrize("category", range(5))
def test_toys_stand_on_the_ground_and_in_view(category):
    for seed in range(30):
        toy = make_toy(category, np.random.RandomState(seed))
        corners = np.concatenate([solid.corners() for solid in toy])
        assert corners[:, 2].min() == pytest.approx(0, abs=1e-12)
        assert np.linalg.norm(corners - [0, 0, corners[:, 2].max() / 2], axis=1).max() < 1.3
        assert all(np.linalg.det(solid.matrix) != 0 for solid in toy)
