"""The provisioner, put together."""

from __future__ import annotations

from holdfast.http import Check, link_check
from holdfast.worker import Jobs
from holdfast_systems.commerce.model import CONTROL_PLANE, PROVISIONER
from holdfast_systems.commerce.parts import Context, Part
from holdfast_systems.commerce.provisioner.api import ORDER_PAID, Signatures, application
from holdfast_systems.commerce.provisioner.links import ControlPlane, Shop
from holdfast_systems.commerce.provisioner.provisioning import Provisioning
from holdfast_systems.commerce.standins.saleor import saleor_standin

SALEOR = "saleor"


def part(context: Context) -> Part:
    """The provisioner on this ground, with the stand-in of the shop where stand-ins are on."""
    settings, store = context.settings, context.ground.store
    saleor, own = context.standin(SALEOR), context.address_of(PROVISIONER)
    jobs = Jobs(store)
    plane = ControlPlane(context.address_of(CONTROL_PLANE), context.tokens, timeout_s=settings.control_plane_timeout_s)
    shop = Shop(saleor)
    provisioning = Provisioning(plane, jobs, deadline_s=settings.webhook_deadline_s)
    app = application(
        provisioning,
        Signatures(shop, saleor, settings.saleor_secret),
        shop,
        store=store,
        catalog=context.catalog,
        address=own,
        saleor=saleor,
    )
    standin = saleor_standin(
        address=saleor,
        webhook=f"{own}{ORDER_PAID}",
        secret=settings.saleor_secret,
        retry_s=settings.saleor_standin_retry_s,
        enter=plane.enter,
    )

    def stop() -> None:
        plane.close()
        shop.close()
        jobs.close()

    checks: dict[str, Check] = {"control_plane": link_check(plane.link)}
    return Part(
        name=PROVISIONER,
        app=app,
        handlers=provisioning.handlers(),
        checks=checks,
        standins={SALEOR: standin} if context.ground.standins and not settings.saleor_url else {},
        says=_says(context, saleor),
        stop=stop,
    )


def _says(context: Context, saleor: str) -> list[str]:
    if context.ground.standins and not context.settings.saleor_url:
        return [f"Buy, chat, see the charge: {saleor}/"]
    return [] if saleor or context.settings.saleor_secret else ["No shop: set HOLDFAST_COMMERCE_SALEOR_URL"]
