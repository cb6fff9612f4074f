"""Solids on a ground, seen by a camera under lamps: rays to shades of grey."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float32]

_LIFT = np.float32(1e-3)  # how far above its surface a point is when it looks for the lamps
_TINY = np.float32(1e-20)  # so that a ray along a tube is in it for long, not for 0 / 0
_AMBIENT = 0.12  # light that comes from everywhere
_GROUND = 0.65  # of the light; the solids reflect all of it


@dataclass(frozen=True)
class Solid:
    """The image of a unit ball, box or tube under an affine map: ``matrix @ point + centre``.

    The unit box is [-1, 1] in each coordinate; the unit tube is the disc of radius 1 in the first
    two, and [-1, 1] in the third.
    """

    round_axes: int  # 3 for a ball, 2 for a tube, 0 for a box: coordinates that form a disc
    matrix: NDArray[np.float64]  # (3, 3)
    centre: NDArray[np.float64]  # (3,)

    def corners(self) -> NDArray[np.float64]:
        """Corners of the parallelepiped around it, (8, 3)."""
        signs = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, 8)
        return (self.matrix @ signs).T + self.centre

    def moved(self, matrix: NDArray[np.float64], shift: ArrayLike = 0.0) -> "Solid":
        """Map it by ``matrix`` and then add ``shift``."""
        return Solid(self.round_axes, matrix @ self.matrix, matrix @ self.centre + np.array(shift))


class Scene:
    """Solids standing on the ground z = 0."""

    def __init__(self, solids: Sequence[Solid]) -> None:
        self._round_axes = [solid.round_axes for solid in solids]
        self._inverses = [np.linalg.inv(s.matrix).astype(np.float32) for s in solids]
        self._centres = [solid.centre.astype(np.float32)[:, None] for solid in solids]

    def light(
        self, eye: NDArray[Any], rays: Floats, lamps: Floats, brightness: NDArray[Any]
    ) -> NDArray[np.float64]:
        """How bright what is seen is under each lighting: 1 is white.

        Parameters
        ----------
        eye : ndarray of shape (3,)
        rays : ndarray of shape (3, n)
            Directions in which the eye looks; all of them go down.
        lamps : ndarray of shape (n_lamps, 3)
            Unit vectors towards the lamps, which are far away.
        brightness : ndarray of shape (n_lightings, n_lamps)

        Returns
        -------
        ndarray of shape (n_lightings, n)
        """
        eye = eye.astype(np.float32)[:, None]
        seen, normals = self._first_hit(eye, rays)
        points = eye + seen * rays + _LIFT * normals
        shades = np.maximum(lamps @ normals, 0)  # (n_lamps, n)
        for lamp, shade in zip(lamps, shades, strict=True):
            (lit,) = np.nonzero(shade)
            shade[lit[self._is_hit(points[:, lit], lamp[:, None])]] = 0
        is_ground = points[2] < 2 * _LIFT
        return np.where(is_ground, _GROUND, 1) * (_AMBIENT + brightness @ shades)

    def _first_hit(self, eye: Floats, rays: Floats) -> tuple[Floats, Floats]:
        """How far away the nearest surface is on each ray, and its unit normal."""
        seen = -eye[2] / rays[2]  # the ground
        normals = np.zeros_like(rays)
        normals[2] = 1
        for round_axes, inverse, centre in self._each():
            start, step = inverse @ (eye - centre), inverse @ rays
            enter, leave = _inside(round_axes, start, step)
            (nearer,) = np.nonzero((enter < leave) & (enter < seen))
            if len(nearer) == 0:
                continue
            seen[nearer] = enter[nearer]
            local = _normals(round_axes, start + enter[nearer] * step[:, nearer])
            outward = inverse.T @ local
            normals[:, nearer] = outward / np.linalg.norm(outward, axis=0)
        return seen, normals

    def _is_hit(self, points: Floats, direction: Floats) -> NDArray[np.bool_]:
        """Whether something is in the way from each point."""
        hit = np.zeros(points.shape[1], dtype=bool)
        for round_axes, inverse, centre in self._each():
            enter, leave = _inside(round_axes, inverse @ (points - centre), inverse @ direction)
            hit |= (enter < leave) & (leave > 0)
        return hit

    def _each(self) -> Any:
        return zip(self._round_axes, self._inverses, self._centres, strict=True)


def _inside(round_axes: int, start: Floats, step: Floats) -> tuple[Floats, Floats]:
    """From where to where the rays ``start + t * step`` are in a unit solid; never if from > to."""
    enters, leaves = [], []
    with np.errstate(divide="ignore", invalid="ignore"):  # parallel to a face: infinite, and right
        if round_axes:
            s, d = start[:round_axes], step[:round_axes]
            a, b, c = (d * d).sum(0) + _TINY, (s * d).sum(0), (s * s).sum(0) - 1
            root = np.sqrt(np.maximum(b * b - a * c, 0))
            misses = b * b < a * c
            enters.append(np.where(misses, np.inf, (-b - root) / a))
            leaves.append((-b + root) / a)
        for s, d in zip(start[round_axes:], step[round_axes:], strict=True):
            one, other = (-1 - s) / d, (1 - s) / d
            enters.append(np.minimum(one, other))
            leaves.append(np.maximum(one, other))
    enter, leave = enters[0], leaves[0]
    for another_enter, another_leave in zip(enters[1:], leaves[1:], strict=True):
        enter, leave = np.maximum(enter, another_enter), np.minimum(leave, another_leave)
    return enter, leave


def _normals(round_axes: int, points: Floats) -> Floats:
    """Outward normals, of any length, at points on the surface of a unit solid."""
    if round_axes == 3:
        return points
    # The face is the one whose distance from the centre is greatest; a disc counts as one face.
    distances = np.abs(points)
    if round_axes:
        distances[0] = np.hypot(points[0], points[1])
        distances[1] = 0
    face = distances.argmax(axis=0)
    normals = np.where(face == np.arange(3)[:, None], np.sign(points), np.float32(0))
    if round_axes:
        on_side = face == 0
        normals[:2, on_side] = points[:2, on_side]
    return normals
