<?php
// SPDX-License-Identifier: Apache-2.0
// A small Symfony application: a kernel, a route, a service and a template.

namespace Bed;

use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Bundle\TwigBundle\TwigBundle;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpKernel\Kernel as BaseKernel;
use Symfony\Component\Routing\Loader\Configurator\RoutingConfigurator;
use Twig\Environment;

// Debian's own autoloaders, of the copy beside this file.
set_include_path(__DIR__ . '/php');
require 'Symfony/Bundle/FrameworkBundle/autoload.php';
require 'Symfony/Bundle/TwigBundle/autoload.php';

class Kernel extends BaseKernel
{
    use MicroKernelTrait;

    public function registerBundles(): iterable
    {
        return [new FrameworkBundle(), new TwigBundle()];
    }

    public function getProjectDir(): string
    {
        return __DIR__;
    }

    protected function configureContainer(ContainerConfigurator $container): void
    {
        $container->extension('framework', ['secret' => 'bed', 'http_method_override' => false]);
        $container->extension('twig', ['default_path' => __DIR__ . '/templates']);
    }

    protected function configureRoutes(RoutingConfigurator $routes): void
    {
        $routes->add('list', '/')->controller([$this, 'list']);
    }

    public function list(Environment $twig): Response
    {
        $rows = array_map(fn ($n) => ['number' => $n, 'square' => $n * $n], range(1, 100));
        return new Response($twig->render('list.html.twig', ['rows' => $rows]));
    }
}

$kernel = new Kernel('prod', false);
$request = Request::createFromGlobals();
$response = $kernel->handle($request);
$response->send();
$kernel->terminate($request, $response);
